//! Colours, or none: `NO_COLOR` (<https://no-color.org>) leaves bold, dim and reversed text, and every state is
//! a word as well.

use ratatui::style::{Color, Modifier, Style};

use super::events::Tone;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Theme {
    pub(super) has_colour: bool,
}

impl Theme {
    /// As the environment wants it.
    pub(super) fn of_environment() -> Theme {
        let is_set = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Theme {
            has_colour: !is_set,
        }
    }

    pub(super) fn tone(self, tone: Tone) -> Style {
        let (colour, modifier) = match tone {
            Tone::Plain => return Style::new(),
            Tone::Good => (Color::Green, Modifier::empty()),
            Tone::Warn => (Color::Yellow, Modifier::empty()),
            Tone::Bad => (Color::Red, Modifier::BOLD),
        };
        let style = Style::new().add_modifier(modifier);
        if self.has_colour {
            style.fg(colour)
        } else {
            style
        }
    }

    pub(super) fn dim(self) -> Style {
        Style::new().add_modifier(Modifier::DIM)
    }

    pub(super) fn bold(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    /// Of the line at the top and the one at the bottom.
    pub(super) fn edge(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }
}
