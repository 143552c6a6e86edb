//! A program in a terminal of its own: what it has drawn, keys, size, and how it leaves the terminal.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};

use crate::run::{binary, root};

/// What is waited for may take so long on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

/// The program and its terminal.
pub(crate) struct Terminal {
    child: Child,
    /// The program's end, kept open so that its state can be looked at afterwards.
    inner: File,
    outer: File,
    screen: Arc<Mutex<vt100::Parser>>,
}

impl Terminal {
    /// Starts `spraycheck` with `arguments` in a terminal of so many lines and columns, which controls it.
    pub(crate) fn start(
        arguments: &[&str],
        size: (u16, u16),
        environment: &[(&str, &str)],
    ) -> Terminal {
        let outer = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a pseudo terminal");
        grantpt(&outer).expect("it is ours");
        unlockpt(&outer).expect("it is ours");
        let name = ptsname(&outer, Vec::new()).expect("it has a name");
        let name = name.to_str().expect("UTF-8").to_owned();
        let inner = OpenOptions::new()
            .read(true)
            .write(true)
            .open(name)
            .expect("its other end");
        resize(&inner, size);
        let end = || Stdio::from(inner.try_clone().expect("a handle"));
        // The terminal must control the program, or a new size is not told.
        let child = Command::new("setsid")
            .args(["--ctty", "--wait"])
            .arg(binary("spraycheck"))
            .args(arguments)
            .current_dir(root())
            .env("TERM", "xterm-256color")
            .env_remove("NO_COLOR")
            .envs(environment.iter().copied())
            .stdin(end())
            .stdout(end())
            .stderr(end())
            .spawn()
            .expect("setsid (util-linux) starts it");
        let outer = File::from(outer);
        let screen = Arc::new(Mutex::new(vt100::Parser::new(size.0, size.1, 0)));
        let (mut from, drawn) = (outer.try_clone().expect("a handle"), Arc::clone(&screen));
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = from.read(&mut bytes) {
                let mut screen = drawn.lock().unwrap_or_else(PoisonError::into_inner);
                screen.process(&bytes[..count]);
            }
        });
        Terminal {
            child,
            inner,
            outer,
            screen,
        }
    }

    fn screen<T>(&self, look: impl FnOnce(&vt100::Screen) -> T) -> T {
        look(
            self.screen
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .screen(),
        )
    }

    /// What is on it.
    pub(crate) fn text(&self) -> String {
        self.screen(vt100::Screen::contents)
    }

    /// Whether anything is drawn in a colour.
    pub(crate) fn has_colour(&self) -> bool {
        self.screen(|screen| {
            let (lines, columns) = screen.size();
            (0..lines)
                .flat_map(|line| (0..columns).map(move |column| (line, column)))
                .filter_map(|(line, column)| screen.cell(line, column))
                .any(|cell| cell.fgcolor() != vt100::Color::Default)
        })
    }

    /// Waits until it shows all of these.
    pub(crate) fn wait_for(&mut self, wanted: &[&str]) {
        let started = Instant::now();
        loop {
            let text = self.text();
            if wanted.iter().all(|wanted| text.contains(wanted)) {
                return;
            }
            let ended = self.child.try_wait().expect("the child is ours");
            assert!(
                ended.is_none() && started.elapsed() < LIMIT,
                "{wanted:?} is not shown; ended: {ended:?}; on the screen:\n{text}"
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Types.
    pub(crate) fn press(&mut self, keys: &str) {
        self.outer.write_all(keys.as_bytes()).expect("it listens");
    }

    /// Makes it another size.
    pub(crate) fn resize(&mut self, size: (u16, u16)) {
        let mut screen = self.screen.lock().unwrap_or_else(PoisonError::into_inner);
        screen.screen_mut().set_size(size.0, size.1);
        resize(&self.inner, size);
    }

    /// Sends a signal to the program, not to what started it.
    pub(crate) fn signal(&self, name: &str) {
        let children = format!("/proc/{0}/task/{0}/children", self.child.id());
        let children = std::fs::read_to_string(children).unwrap_or_default();
        // setsid makes a new process only if it leads a group itself.
        let program = children.split_whitespace().next().map(str::to_owned);
        let program = program.unwrap_or_else(|| self.child.id().to_string());
        let kill = Command::new("kill").args([name, &program]).status();
        assert!(kill.expect("kill runs").success());
    }

    /// Waits for the end, and returns the exit status. The terminal must then be as it was: lines are
    /// edited and echoed again, and what was on it before is back.
    pub(crate) fn end(mut self) -> i32 {
        let started = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("the child is ours") {
                break status;
            }
            if started.elapsed() > LIMIT {
                self.child.kill().expect("the child is ours");
                panic!("it does not end:\n{}", self.text());
            }
            std::thread::sleep(Duration::from_millis(20));
        };
        let modes = tcgetattr(&self.inner).expect("a terminal").local_modes;
        assert!(
            modes.contains(LocalModes::ICANON | LocalModes::ECHO),
            "raw mode is left on: {modes:?}"
        );
        // Its last bytes may still be on their way to the thread.
        let is_back = |screen: &vt100::Screen| !screen.alternate_screen() && !screen.hide_cursor();
        while !self.screen(is_back) {
            assert!(
                started.elapsed() < LIMIT,
                "the screen or the cursor is not given back"
            );
            std::thread::sleep(Duration::from_millis(20));
        }
        status.code().unwrap_or(-1)
    }
}

fn resize(terminal: &File, (lines, columns): (u16, u16)) {
    let size = Winsize {
        ws_row: lines,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    tcsetwinsize(terminal, size).expect("a terminal has a size");
}
