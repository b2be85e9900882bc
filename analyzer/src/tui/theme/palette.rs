//! The themes: the colours of each, what terminals make of them, and painting.
//!
//! The hues are those of Okabe and Ito, which people with the common colour-vision deficiencies tell apart; lightness
//! is chosen for contrast with the background. The tests compute both.

mod area;

use ratatui::buffer::{Buffer, Cell};
use ratatui::style::{Color, Modifier};
use serde::{Deserialize, Deserializer};

/// A theme by name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Name {
    /// The theme that fits what the environment says of the terminal.
    #[default]
    Auto,
    /// Colours for dark backgrounds.
    Dark,
    /// Colours for light backgrounds.
    Light,
    /// For dark backgrounds, with the most contrast.
    HighContrast,
    /// No colours: bold, dim and reversed text.
    Mono,
    /// The 16 colours of the terminal's own palette.
    #[serde(rename = "16")]
    Ansi,
}

impl Name {
    /// The themes in the order of the key that changes them.
    const ALL: [Self; 5] = [Self::Dark, Self::Light, Self::HighContrast, Self::Mono, Self::Ansi];

    /// Its name in the configuration file.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Dark => "dark",
            Self::Light => "light",
            Self::HighContrast => "high-contrast",
            Self::Mono => "mono",
            Self::Ansi => "16",
        }
    }

    const fn palette(self) -> Option<&'static Palette> {
        match self {
            Self::Dark => Some(&DARK),
            Self::Light => Some(&LIGHT),
            Self::HighContrast => Some(&HIGH_CONTRAST),
            Self::Auto | Self::Mono | Self::Ansi => None,
        }
    }
}

/// Colours that a terminal shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Depth {
    /// The 16 of its own palette.
    #[default]
    Ansi,
    /// Those, and 240 fixed ones.
    Indexed,
    /// 24 bits.
    True,
}

/// Colours of the user in place of those of the theme: `theme` for its own, names of the 16 colours of a terminal, such
/// as `cyan` or `lightred`, numbers of 256, or `#rrggbb` where the terminal has them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Overrides {
    /// Name of the theme.
    pub name: Name,
    /// Bars, sparklines and keys.
    #[serde(deserialize_with = "color")]
    pub data: Option<Color>,
    /// Healthy values.
    #[serde(deserialize_with = "color")]
    pub good: Option<Color>,
    /// Values of reduced performance.
    #[serde(deserialize_with = "color")]
    pub warning: Option<Color>,
    /// Lost or refused packets.
    #[serde(deserialize_with = "color")]
    pub critical: Option<Color>,
}

fn color<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Color>, D::Error> {
    let name = String::deserialize(deserializer)?;
    if name == "theme" {
        return Ok(None);
    }
    // Without the name: the user may have no right to read the file.
    let invalid = |_| serde::de::Error::custom("invalid colour: use theme, cyan, lightred, 208 or #ff8700");
    name.parse().map(Some).map_err(invalid)
}

/// Red, green and blue.
type Rgb = (u8, u8, u8);

/// Roles of the backgrounds of a heat map, from little to much. None is the role of anything else.
pub(super) const HEAT: [Color; 4] = [Color::Blue, Color::LightBlue, Color::Magenta, Color::LightMagenta];
/// The same in the 16 colours of a terminal, with the text on them; the shades of the cells tell the least from
/// nothing.
const HEAT_16: [(Color, Color); 4] = [
    (Color::Reset, Color::Reset),
    (Color::Blue, Color::White),
    (Color::Cyan, Color::Black),
    (Color::White, Color::Black),
];

/// The colours of the roles.
#[derive(Debug)]
struct Palette {
    data: Rgb,
    good: Rgb,
    warning: Rgb,
    critical: Rgb,
    /// Colours below the edge of an area: of data, of a warning and of a critical state.
    bodies: [Rgb; 3],
    /// Labels, zeros and what has ended.
    muted: Rgb,
    /// Borders and rules.
    frame: Rgb,
    /// Backgrounds of badges; the text on the first two is black, on the last white.
    badges: [Rgb; 3],
    /// Backgrounds of a heat map, from little to much, and the text on each.
    heat: [(Rgb, Rgb); 4],
    /// Backgrounds that it is made for.
    #[cfg_attr(not(test), expect(dead_code, reason = "contrast is computed against them"))]
    backgrounds: [Rgb; 2],
}

const DARK: Palette = Palette {
    data: (0x56, 0xB4, 0xE9),
    good: (0x3C, 0xBE, 0x8C),
    warning: (0xF0, 0xAA, 0x28),
    critical: (0xFF, 0x6B, 0x50),
    bodies: [(0x1F, 0x5A, 0x80), (0x80, 0x58, 0x10), (0xA8, 0x1E, 0x1E)],
    muted: (0x94, 0x94, 0x94),
    frame: (0x58, 0x58, 0x58),
    // The red of #C8321E becomes an orange of 256 colours, on which white has a contrast of 3.8.
    badges: [(0x3C, 0xBE, 0x8C), (0xF0, 0xAA, 0x28), (0xC8, 0x1E, 0x1E)],
    heat: [
        ((0x12, 0x2F, 0x4A), (0xFF, 0xFF, 0xFF)),
        ((0x1C, 0x55, 0x82), (0xFF, 0xFF, 0xFF)),
        ((0x56, 0xB4, 0xE9), (0, 0, 0)),
        ((0xD7, 0xF0, 0xFF), (0, 0, 0)),
    ],
    backgrounds: [(0, 0, 0), (0x2B, 0x2B, 0x2B)],
};

const LIGHT: Palette = Palette {
    data: (0x00, 0x72, 0xB2),
    // #00795A has a contrast of 4.2 in 256 colours; #B42318 is 4 to 9 from the warning with deuteranopia, not 12.
    good: (0x00, 0x6E, 0x52),
    warning: (0x9A, 0x67, 0x00),
    critical: (0x8A, 0x00, 0x18),
    bodies: [(0x7C, 0xB4, 0xDA), (0xD8, 0xB0, 0x60), (0xDC, 0x84, 0x8C)],
    muted: (0x5F, 0x5F, 0x5F),
    frame: (0xA8, 0xA8, 0xA8),
    badges: [(0x3C, 0xBE, 0x8C), (0xF0, 0xAA, 0x28), (0xC8, 0x1E, 0x1E)],
    heat: [
        ((0xDC, 0xEC, 0xF7), (0, 0, 0)),
        ((0x9C, 0xCC, 0xEB), (0, 0, 0)),
        ((0x00, 0x72, 0xB2), (0xFF, 0xFF, 0xFF)),
        ((0x00, 0x2A, 0x5F), (0xFF, 0xFF, 0xFF)),
    ],
    backgrounds: [(0xFF, 0xFF, 0xFF), (0xFD, 0xF6, 0xE3)],
};

const HIGH_CONTRAST: Palette = Palette {
    data: (0x8C, 0xD2, 0xFF),
    good: (0x5C, 0xF2, 0xB4),
    warning: (0xFF, 0xD7, 0x5F),
    critical: (0xFF, 0x96, 0x80),
    bodies: [(0x2F, 0x6E, 0x9C), (0x8F, 0x70, 0x20), (0xBE, 0x24, 0x24)],
    muted: (0xC6, 0xC6, 0xC6),
    frame: (0x9E, 0x9E, 0x9E),
    badges: [(0x5C, 0xF2, 0xB4), (0xFF, 0xD7, 0x5F), (0x96, 0x00, 0x00)],
    heat: [
        ((0x0A, 0x28, 0x46), (0xFF, 0xFF, 0xFF)),
        ((0x14, 0x46, 0x6E), (0xFF, 0xFF, 0xFF)),
        ((0x6E, 0xC8, 0xFF), (0, 0, 0)),
        ((0xF0, 0xFA, 0xFF), (0, 0, 0)),
    ],
    backgrounds: [(0, 0, 0), (0x1E, 0x1E, 0x1E)],
};

/// The theme in force.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Theme {
    /// Its name; [`Name::Auto`] is [`Name::Ansi`].
    pub name: Name,
    /// Colours that the terminal shows.
    pub depth: Depth,
    /// Colours of the user.
    pub overrides: Overrides,
}

impl Theme {
    /// The theme of the environment: NO_COLOR and TERM=dumb ask for none, COLORTERM and TERM name the colours that
    /// there are, and COLORFGBG the background.
    pub fn from_lookup(lookup: impl Fn(&str) -> Option<String>) -> Self {
        let variable = |name| lookup(name).unwrap_or_default();
        let (term, color) = (variable("TERM"), variable("COLORTERM"));
        let depth = match () {
            () if color == "truecolor" || color == "24bit" || term.ends_with("-direct") => Depth::True,
            () if term.contains("256color") || !color.is_empty() => Depth::Indexed,
            () => Depth::Ansi,
        };
        // White and light grey of the 16 colours.
        let light = matches!(variable("COLORFGBG").rsplit(';').next(), Some("7" | "15"));
        let name = match () {
            () if !variable("NO_COLOR").is_empty() || term == "dumb" => Name::Mono,
            () if depth == Depth::Ansi => Name::Ansi,
            () if light => Name::Light,
            () => Name::Dark,
        };
        Self { name, depth, overrides: Overrides::default() }
    }

    /// Theme that follows in the circle.
    #[must_use]
    pub fn next(self) -> Self {
        let at = Name::ALL.iter().position(|name| *name == self.name).map_or(0, |at| at + 1);
        Self { name: Name::ALL[at % Name::ALL.len()], ..self }
    }

    /// Puts the colours of the theme in place of the roles.
    pub fn paint(&self, buffer: &mut Buffer) {
        if self.name == Name::Mono {
            buffer.content.iter_mut().for_each(without_color);
            return;
        }
        if let Some(palette) = self.name.palette() {
            self.shade_areas(palette, buffer);
        }
        for cell in &mut buffer.content {
            self.paint_cell(cell);
        }
    }

    fn paint_cell(&self, cell: &mut Cell) {
        let of = &self.overrides;
        let palette = self.name.palette();
        let fixed = |rgb: fn(&Palette) -> Rgb, role: Color| palette.map_or(role, |p| self.shown(rgb(p)));
        if let Some(step) = HEAT.iter().position(|role| *role == cell.bg) {
            let (bg, fg) = match palette {
                Some(palette) => {
                    // The background is the shade: a block on it would be a hole.
                    if matches!(cell.symbol(), "░" | "▒" | "▓" | "█") {
                        cell.set_symbol(" ");
                    }
                    let (bg, fg) = palette.heat[step];
                    (self.shown(bg), self.shown(fg))
                }
                None => HEAT_16[step],
            };
            (cell.bg, cell.fg) = (bg, fg);
            return;
        }
        cell.bg = match cell.bg {
            Color::Green => of.good.unwrap_or_else(|| fixed(|p| p.badges[0], Color::Green)),
            Color::Yellow => of.warning.unwrap_or_else(|| fixed(|p| p.badges[1], Color::Yellow)),
            Color::Red => of.critical.unwrap_or_else(|| fixed(|p| p.badges[2], Color::Red)),
            other => other,
        };
        cell.fg = match cell.fg {
            Color::Cyan => of.data.unwrap_or_else(|| fixed(|p| p.data, Color::Cyan)),
            Color::Green => of.good.unwrap_or_else(|| fixed(|p| p.good, Color::Green)),
            Color::Yellow => of.warning.unwrap_or_else(|| fixed(|p| p.warning, Color::Yellow)),
            Color::Red => of.critical.unwrap_or_else(|| fixed(|p| p.critical, Color::Red)),
            Color::LightCyan => of.data.unwrap_or_else(|| fixed(|p| p.bodies[0], Color::Cyan)),
            Color::LightYellow => of.warning.unwrap_or_else(|| fixed(|p| p.bodies[1], Color::Yellow)),
            Color::LightRed => of.critical.unwrap_or_else(|| fixed(|p| p.bodies[2], Color::Red)),
            Color::DarkGray => fixed(|p| p.frame, Color::DarkGray),
            Color::Black => fixed(|_| (0, 0, 0), Color::Black),
            Color::White => fixed(|_| (0xFF, 0xFF, 0xFF), Color::White),
            // Dim text of many terminals has too little contrast.
            Color::Reset if palette.is_some() && cell.modifier.contains(Modifier::DIM) => {
                cell.modifier.remove(Modifier::DIM);
                let reversed = cell.modifier.contains(Modifier::REVERSED);
                if reversed { Color::Reset } else { fixed(|p| p.muted, Color::Reset) }
            }
            other => other,
        };
    }

    fn shown(&self, rgb: Rgb) -> Color {
        match self.depth {
            Depth::True => Color::Rgb(rgb.0, rgb.1, rgb.2),
            Depth::Indexed | Depth::Ansi => Color::Indexed(nearest(rgb)),
        }
    }
}

/// Takes the colours out; what had a background is shown reversed, and borders are dim.
fn without_color(cell: &mut Cell) {
    if cell.bg != Color::Reset && !HEAT.contains(&cell.bg) {
        cell.modifier.insert(Modifier::REVERSED);
    }
    if cell.fg == Color::DarkGray {
        cell.modifier.insert(Modifier::DIM);
    }
    cell.fg = Color::Reset;
    cell.bg = Color::Reset;
}

/// The colour of a number of the fixed 240, from 16 on: a cube of six steps, then greys.
const fn indexed(number: u8) -> Rgb {
    const fn step(n: u8) -> u8 {
        if n == 0 { 0 } else { 55 + 40 * n }
    }
    if number < 232 {
        let n = number - 16;
        (step(n / 36), step(n / 6 % 6), step(n % 6))
    } else {
        let grey = 8 + 10 * (number - 232);
        (grey, grey, grey)
    }
}

/// The nearest of the fixed 240 colours: the nearest step of the cube for each primary, or the grey nearest to their
/// mean. Each coloured cell of a picture needs it, so it compares two colours and not 240.
fn nearest((r, g, b): Rgb) -> u8 {
    let step = |primary: u8| match primary {
        0..48 => 0,
        48..116 => 1,
        _ => (primary - 36) / 40,
    };
    let cube = 16 + 36 * step(r) + 6 * step(g) + step(b);
    let sum = u16::from(r) + u16::from(g) + u16::from(b);
    let grey = 232 + u8::try_from(sum.saturating_sub(10) / 30).map_or(23, |n| n.min(23));
    let square = |a: u8, b: u8| u32::from(a.abs_diff(b)).pow(2);
    let distance = |number: u8| {
        let (r2, g2, b2) = indexed(number);
        square(r, r2) + square(g, g2) + square(b, b2)
    };
    if distance(grey) < distance(cube) { grey } else { cube }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_colour_is_the_nearest_of_all() {
        let square = |a: u8, b: u8| u32::from(a.abs_diff(b)).pow(2);
        let steps = || (0..=u8::MAX).step_by(7).chain([47, 48, 115, 116, 155, 156, 255]);
        for (r, g, b) in steps().flat_map(|r| steps().flat_map(move |g| steps().map(move |b| (r, g, b)))) {
            let distance = |number: &u8| {
                let (r2, g2, b2) = indexed(*number);
                square(r, r2) + square(g, g2) + square(b, b2)
            };
            let (found, least) = (nearest((r, g, b)), (16..=255).min_by_key(distance).unwrap());
            assert_eq!(distance(&found), distance(&least), "{r} {g} {b}: {found}, {least}");
        }
    }

    /// Linear light of the three primaries.
    fn linear((r, g, b): Rgb) -> [f64; 3] {
        [r, g, b].map(|c| {
            let c = f64::from(c) / 255.0;
            if c <= 0.04045 { c / 12.92 } else { ((c + 0.055) / 1.055).powf(2.4) }
        })
    }

    fn dot(a: [f64; 3], b: [f64; 3]) -> f64 {
        a.iter().zip(b).map(|(a, b)| a * b).sum()
    }

    /// Contrast ratio of WCAG 2, 1 to 21.
    fn contrast(a: Rgb, b: Rgb) -> f64 {
        let light = |rgb| dot([0.2126, 0.7152, 0.0722], linear(rgb)) + 0.05;
        let (a, b) = (light(a), light(b));
        a.max(b) / a.min(b)
    }

    /// A colour in CIELAB, whose distances are those that the eye sees.
    fn lab(linear: [f64; 3]) -> [f64; 3] {
        let linear = linear.map(|c| c.clamp(0.0, 1.0));
        let root = |t: f64| if t > 0.008_856 { t.cbrt() } else { 7.787 * t + 16.0 / 116.0 };
        let x = root(dot([0.4124, 0.3576, 0.1805], linear) / 0.95047);
        let y = root(dot([0.2126, 0.7152, 0.0722], linear));
        let z = root(dot([0.0193, 0.1192, 0.9505], linear) / 1.08883);
        [116.0 * y - 16.0, 500.0 * (x - y), 200.0 * (y - z)]
    }

    /// Normal vision, protanopia, deuteranopia and tritanopia: matrices of Machado, Oliveira and Fernandes (2009).
    const VISIONS: [[[f64; 3]; 3]; 4] = [
        [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
        [
            [0.152_286, 1.052_583, -0.204_868],
            [0.114_503, 0.786_281, 0.099_216],
            [-0.003_882, -0.048_116, 1.051_998],
        ],
        [
            [0.367_322, 0.860_646, -0.227_968],
            [0.280_085, 0.672_501, 0.047_413],
            [-0.011_820, 0.042_940, 0.968_881],
        ],
        [
            [1.255_528, -0.076_749, -0.178_779],
            [-0.078_411, 0.930_809, 0.147_602],
            [0.004_733, 0.691_367, 0.303_900],
        ],
    ];

    fn distance(a: Rgb, b: Rgb, vision: &[[f64; 3]; 3]) -> f64 {
        let seen = |rgb| lab(vision.map(|row| dot(row, linear(rgb))));
        let (a, b) = (seen(a), seen(b));
        a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt()
    }

    /// Each theme as terminals of 24 bits and of 256 colours show it.
    fn shown() -> impl Iterator<Item = (&'static str, &'static Palette, fn(Rgb) -> Rgb)> {
        let depths: [fn(Rgb) -> Rgb; 2] = [|rgb| rgb, |rgb| indexed(nearest(rgb))];
        [("dark", &DARK), ("light", &LIGHT), ("high-contrast", &HIGH_CONTRAST)]
            .into_iter()
            .flat_map(move |(name, palette)| depths.map(|depth| (name, palette, depth)))
    }

    #[test]
    fn every_text_has_contrast_with_every_background() {
        for (name, palette, shown) in shown() {
            let least = if name == "high-contrast" { 7.0 } else { 4.5 };
            let Palette { data, good, warning, critical, muted, frame, badges, backgrounds, .. } = palette;
            for background in backgrounds {
                for (role, color) in [
                    ("data", data),
                    ("good", good),
                    ("warning", warning),
                    ("critical", critical),
                    ("muted", muted),
                ] {
                    let ratio = contrast(shown(*color), *background);
                    assert!(ratio >= least, "{name} {role} on {background:?}: {ratio:.2}");
                }
                // Borders are to be seen, not read.
                assert!(contrast(shown(*frame), *background) >= 1.7, "{name} frame on {background:?}");
            }
            for (badge, text) in badges.iter().zip([(0, 0, 0), (0, 0, 0), (255, 255, 255)]) {
                let ratio = contrast(shown(*badge), text);
                assert!(ratio >= least.min(5.0), "{name} badge {badge:?}: {ratio:.2}");
            }
        }
    }

    /// To be seen against the background, and the edge against them.
    #[test]
    fn the_edge_of_an_area_stands_out() {
        for (name, palette, shown) in shown() {
            let Palette { data, warning, critical, bodies, backgrounds, .. } = palette;
            for (edge, body) in [data, warning, critical].into_iter().zip(bodies) {
                let apart = contrast(shown(*edge), shown(*body));
                assert!(apart >= 1.7, "{name} {edge:?} on {body:?}: {apart:.2}");
                for background in backgrounds {
                    let apart = contrast(shown(*body), *background);
                    assert!(apart >= 1.7, "{name} {body:?} on {background:?}: {apart:.2}");
                }
            }
        }
    }

    #[test]
    fn cells_of_a_heat_map_are_readable_and_grow_with_their_values() {
        for (name, palette, shown) in shown() {
            let least = if name == "high-contrast" { 7.0 } else { 4.5 };
            let steps = palette.heat.map(|(background, text)| (shown(background), shown(text)));
            for (background, text) in steps {
                let ratio = contrast(background, text);
                assert!(ratio >= least, "{name} {text:?} on {background:?}: {ratio:.2}");
            }
            // Each step differs from the one before by its lightness alone, whatever the vision, and the last is
            // farthest from the background of the terminal.
            for pair in steps.windows(2) {
                let apart = contrast(pair[0].0, pair[1].0);
                assert!(apart >= 1.3, "{name} {pair:?}: {apart:.2}");
            }
            let from_background = steps.map(|(step, _)| contrast(step, palette.backgrounds[0]));
            assert!(from_background.is_sorted(), "{name}: {from_background:?}");
        }
    }

    #[test]
    fn a_heat_cell_has_its_own_text_in_every_theme() {
        for name in Name::ALL {
            let mut buffer = Buffer::empty(ratatui::layout::Rect::new(0, 0, 4, 1));
            for (x, step) in (0..4).zip(1..=4) {
                buffer.set_string(x, 0, "7", super::super::heat(step));
            }
            Theme { name, depth: Depth::True, ..Theme::default() }.paint(&mut buffer);
            let cells: Vec<(Color, Color)> = buffer.content.iter().map(|cell| (cell.bg, cell.fg)).collect();
            assert!(
                cells.iter().all(|(bg, _)| !HEAT[1..].contains(bg)),
                "{name:?}: a role is left: {cells:?}"
            );
            buffer.set_string(0, 0, "█", super::super::heat(1));
            Theme { name, depth: Depth::True, ..Theme::default() }.paint(&mut buffer);
            let shaded = matches!(name, Name::Mono | Name::Ansi);
            assert_eq!(
                buffer[(0, 0)].symbol() == "█",
                shaded,
                "{name:?}: a block on a background that is the shade"
            );
            let apart = cells.windows(2).all(|pair| pair[0] != pair[1]);
            assert_eq!(apart, name != Name::Mono, "{name:?}: {cells:?}");
        }
    }

    /// The least difference that an eye notices is about 2.3.
    #[test]
    fn levels_differ_with_every_vision() {
        for (name, palette, shown) in shown() {
            let [data, good, warning, critical] =
                [palette.data, palette.good, palette.warning, palette.critical].map(shown);
            let pairs = [
                ("good and warning", good, warning, 20.0),
                ("good and critical", good, critical, 12.0),
                ("warning and critical", warning, critical, 12.0),
                ("data and warning", data, warning, 20.0),
                ("data and critical", data, critical, 20.0),
                // Both mean that nothing is wrong.
                ("data and good", data, good, 5.0),
            ];
            for vision in &VISIONS {
                for (pair, a, b, least) in pairs {
                    let apart = distance(a, b, vision);
                    assert!(apart >= least, "{name}, {pair}: {apart:.1} with {vision:?}");
                }
            }
        }
    }

    #[test]
    fn the_environment_names_theme_and_depth() {
        let of = |pairs: &'static [(&str, &str)]| {
            let theme = Theme::from_lookup(|name| {
                pairs.iter().find(|(n, _)| *n == name).map(|(_, value)| (*value).to_owned())
            });
            (theme.name, theme.depth)
        };
        assert_eq!(of(&[("TERM", "xterm-256color"), ("COLORTERM", "truecolor")]), (Name::Dark, Depth::True));
        assert_eq!(of(&[("TERM", "tmux-256color")]), (Name::Dark, Depth::Indexed));
        assert_eq!(of(&[("TERM", "tmux-256color"), ("COLORFGBG", "0;15")]), (Name::Light, Depth::Indexed));
        assert_eq!(of(&[("TERM", "linux")]), (Name::Ansi, Depth::Ansi));
        assert_eq!(of(&[("TERM", "vt100")]).0, Name::Ansi);
        assert_eq!(of(&[("TERM", "xterm-256color"), ("NO_COLOR", "1")]).0, Name::Mono);
        assert_eq!(of(&[("TERM", "xterm-256color"), ("NO_COLOR", "")]).0, Name::Dark);
        assert_eq!(of(&[("TERM", "dumb"), ("COLORTERM", "truecolor")]).0, Name::Mono);
    }

    #[test]
    fn the_key_goes_through_every_theme_and_back() {
        let mut theme = Theme { name: Name::Dark, ..Theme::default() };
        let mut seen = Vec::new();
        for _ in Name::ALL {
            seen.push(theme.name);
            theme = theme.next();
        }
        assert_eq!((seen.as_slice(), theme.name), (&Name::ALL[..], Name::Dark));
    }
}
