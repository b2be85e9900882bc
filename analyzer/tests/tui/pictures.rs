//! Pictures with colours for people to look at: where `ROCESCOPE_PICTURES` names a folder, each screen of the snapshots
//! at several sizes, as a terminal gets it. `cargo xtask pictures` makes images of them.

use std::fmt::Write as _;
use std::path::PathBuf;

use ratatui::buffer::Cell;
use ratatui::style::Modifier;
use rocescope::tui::theme::Depth;

use super::*;

/// The folder, if pictures are wanted.
fn folder() -> Option<PathBuf> {
    std::env::var_os("ROCESCOPE_PICTURES").map(PathBuf::from)
}

/// Keeps what a screen shows in a state as `NAME-WIDTHxHEIGHT-SCREEN.ansi`, if pictures are wanted.
pub(super) fn keep(name: &str, app: &mut App) {
    let Some(folder) = folder() else { return };
    let theme = std::mem::replace(
        &mut app.view.options.theme,
        Theme { name: Name::Dark, depth: Depth::True, ..Theme::default() },
    );
    let (width, height) = app.view.size;
    let file =
        format!("{name}-{width}x{height}-{}-{}.ansi", app.view.screen as u8 + 1, app.view.screen.name());
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join(file), colored(app)).unwrap();
    app.view.options.theme = theme;
}

/// The picture with escape sequences for its colours.
fn colored(app: &App) -> String {
    let terminal = draw(app);
    let buffer = terminal.backend().buffer();
    let mut text = String::new();
    for line in buffer.content.chunks(usize::from(buffer.area.width).max(1)) {
        for cell in line {
            let _ = write!(text, "\u{1b}[0{}m{}", style(cell), cell.symbol());
        }
        text.push_str("\u{1b}[0m\n");
    }
    text
}

/// Parameters of the escape sequence for the style of a cell.
fn style(cell: &Cell) -> String {
    let mut parameters = String::new();
    for (kind, color) in [(38, cell.fg), (48, cell.bg)] {
        let _ = match color {
            Color::Rgb(red, green, blue) => write!(parameters, ";{kind};2;{red};{green};{blue}"),
            Color::Indexed(number) => write!(parameters, ";{kind};5;{number}"),
            Color::Reset => Ok(()),
            other => panic!("the dark theme has no {other:?}"),
        };
    }
    for (modifier, number) in
        [(Modifier::BOLD, 1), (Modifier::DIM, 2), (Modifier::UNDERLINED, 4), (Modifier::REVERSED, 7)]
    {
        if cell.modifier.contains(modifier) {
            let _ = write!(parameters, ";{number}");
        }
    }
    parameters
}
