//! `spraycheck watch`: running testbeds and switches on the terminal, live.
//!
//! A thread for each socket asks ([`reader`]), a value keeps what is to be seen ([`view`]), and it is drawn
//! when something is new ([`draw`]). The terminal is as it was before at every end: a key, a signal, a
//! panic.

mod bars;
mod draw;
mod events;
mod look;
mod ports;
mod reader;
mod theme;
mod view;

use std::io::{IsTerminal, Write, stdout};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use ratatui::DefaultTerminal;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::crossterm::execute;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::args::WatchArgs;
use crate::failure::{ENVIRONMENT, Failure};
use reader::{News, Place};
use theme::Theme;
use view::{Key, View};

/// How long a key is waited for until news and signals are looked at.
const LOOK: Duration = Duration::from_millis(50);
/// What counts seconds is drawn so often, news or not.
const REDRAW: Duration = Duration::from_secs(1);

pub(crate) fn run(args: &WatchArgs) -> Result<ExitCode, Failure> {
    if !stdout().is_terminal() || !std::io::stdin().is_terminal() {
        let message =
            "watch needs a terminal; for a file or a pipe use spraycheck show, which has --json";
        return Err(Failure::new(ENVIRONMENT, message));
    }
    let places: Vec<Place> = match args.socket.as_slice() {
        [] => vec![Place::Running],
        named => named.iter().cloned().map(Place::Socket).collect(),
    };
    // A name that is wrong from the start is said at once, not waited for.
    for place in &places {
        place.connect()?;
    }
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&stop))
            .map_err(|error| lacks("cannot take signals", &error))?;
    }
    let begun = Instant::now();
    let (tell, news) = channel();
    let interval = Duration::from_nanos(args.interval.nanos());
    for (index, place) in places.iter().enumerate() {
        let (tell, stop) = (tell.clone(), Arc::clone(&stop));
        // Readers end with the process: one may wait for an answer for seconds.
        drop(reader::start(
            index,
            place.clone(),
            interval,
            begun,
            tell,
            stop,
        ));
    }
    drop(tell);
    let mut screen = Screen::new()?;
    let view = View::new(places.iter().map(Place::name));
    let shown = show(&mut screen.terminal, view, args, &news, begun, &stop);
    drop(screen);
    stop.store(true, Ordering::Relaxed);
    shown.map_err(|error| lacks("cannot use the terminal", &error))?;
    Ok(ExitCode::SUCCESS)
}

fn lacks(what: &str, error: &std::io::Error) -> Failure {
    Failure::new(ENVIRONMENT, format!("{what}: {error}"))
}

/// The terminal while it is ours.
struct Screen {
    terminal: DefaultTerminal,
}

impl Screen {
    fn new() -> Result<Screen, Failure> {
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            // The screen is given back before this runs; only the cursor is still away.
            let _ = execute!(stdout(), Show);
            hook(info);
        }));
        match ratatui::try_init() {
            Ok(terminal) => Ok(Screen { terminal }),
            Err(error) => {
                ratatui::restore();
                Err(lacks("cannot use the terminal", &error))
            }
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = self.terminal.show_cursor();
        ratatui::restore();
        let _ = stdout().flush();
    }
}

/// Draws until a key or a signal ends it.
fn show(
    terminal: &mut DefaultTerminal,
    mut view: View,
    args: &WatchArgs,
    news: &Receiver<News>,
    begun: Instant,
    stop: &AtomicBool,
) -> std::io::Result<()> {
    let theme = Theme::of_environment();
    let mut wish = args.switch.as_deref();
    let mut drawn: Option<Instant> = None;
    while !stop.load(Ordering::Relaxed) {
        let mut is_new = drawn.is_none_or(|at| at.elapsed() >= REDRAW);
        for News { place, what } in news.try_iter() {
            view.take(begun.elapsed(), place, what);
            is_new = true;
        }
        if wish.is_some_and(|name| view.choose(name)) {
            wish = None;
        }
        if is_new {
            terminal.draw(|frame| draw::draw(frame, &view, begun.elapsed(), theme))?;
            drawn = Some(Instant::now());
        }
        if event::poll(LOOK)? {
            match event::read()? {
                Event::Key(key) if view_is_to_end(&mut view, &mut wish, key) => return Ok(()),
                _ => {}
            }
            // A key or another size is answered at once.
            drawn = None;
        }
    }
    Ok(())
}

fn view_is_to_end(view: &mut View, wish: &mut Option<&str>, key: KeyEvent) -> bool {
    let Some(key) = key_of(key) else {
        return false;
    };
    if matches!(key, Key::Next | Key::Previous) {
        *wish = None;
    }
    view.press(key)
}

fn key_of(key: KeyEvent) -> Option<Key> {
    if key.kind == KeyEventKind::Release {
        return None;
    }
    let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
    Some(match key.code {
        KeyCode::Char('c') if is_control => Key::Quit,
        KeyCode::Char('q') | KeyCode::Esc => Key::Quit,
        KeyCode::Char(' ' | 'p') => Key::Pause,
        KeyCode::Char('n') | KeyCode::Tab | KeyCode::Right => Key::Next,
        KeyCode::Char('N') | KeyCode::BackTab | KeyCode::Left => Key::Previous,
        KeyCode::Up | KeyCode::Char('k') => Key::Up,
        KeyCode::Down | KeyCode::Char('j') => Key::Down,
        KeyCode::Char('?' | 'h') => Key::Help,
        _ => return None,
    })
}

#[cfg(test)]
mod tests;
