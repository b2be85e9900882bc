//! The page of one finding: how it is opened and left, what it shows at each size, and what is copied from it.

use super::overview::replayed;
use super::*;
use rocescope::tui::mouse::Mouse;

const SIZES: [(u16, u16); 3] = [USUAL, (160, 48), LARGE];
/// Loss upstream of the tap, and retransmissions that it causes.
const LOSS: &str = "e1_loss1.h1.pcap.gz";

/// The page of the worst finding, opened from the overview.
fn page(name: &str, size: (u16, u16)) -> App {
    let mut app = replayed(name, size);
    press(&mut app, &[Key::Enter]);
    assert_eq!(app.view.screen, Screen::Problem);
    app
}

fn worst(app: &App) -> &rocescope::findings::Finding {
    &app.view.concluded().unwrap().findings[0]
}

/// A live host, whose steps have commands.
fn live(size: (u16, u16)) -> App {
    let mut app = after(&World::sick(), size, 30);
    press(&mut app, &[Key::Enter]);
    app
}

#[test]
fn the_page_at_every_size() {
    for size in SIZES {
        snapshot(&format!("problem_loss_{}x{}", size.0, size.1), &page(LOSS, size));
        snapshot(&format!("problem_live_{}x{}", size.0, size.1), &live(size));
    }
    let mut end = page(LOSS, USUAL);
    press(&mut end, &[Key::End]);
    snapshot("problem_loss_end_80x24", &end);
}

#[test]
fn everything_of_the_finding_is_on_the_page() {
    let mut app = page(LOSS, USUAL);
    let mut seen = text(&app);
    for _ in 0..200 {
        press(&mut app, &[Key::Down]);
        seen.push_str(&text(&app));
    }
    let finding = worst(&app);
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let steps = finding.steps.iter().flat_map(|step| words(&step.text));
    let measured = finding.measurements().into_iter().flat_map(|(_, value)| words(&value));
    let explained = words(rocescope::findings::entry(finding.id).unwrap().meaning);
    for word in words(&finding.title).into_iter().chain(steps).chain(measured).chain(explained) {
        assert!(seen.contains(&word), "{word} of {} in\n{seen}", finding.id);
    }
    for flow in &finding.flows {
        assert!(seen.contains(&format!("QP {}", flow.dest_qp)), "{flow:?}");
    }
}

#[test]
fn enter_opens_and_esc_goes_back_to_where_one_came_from() {
    for (number, from) in [('1', Screen::Overview), ('8', Screen::Findings)] {
        let mut app = replayed(LOSS, WIDE);
        press(&mut app, &[Key::Char(number), Key::Enter]);
        assert_eq!(app.view.screen, Screen::Problem);
        assert!(text(&app).contains("DO NEXT"));
        press(&mut app, &[Key::Esc]);
        assert_eq!(app.view.screen, from);
        press(&mut app, &[Key::Enter, Key::Tab]);
        assert_eq!(app.view.screen, from.turn(1), "the next tab is that behind the list");
    }
}

/// Selects what the page shows in a line with `what`, and opens it.
pub(super) fn open(app: &mut App, what: &str) {
    for _ in 0..100 {
        let marked = with_attributes(app);
        let lines: Vec<&str> = marked.lines().collect();
        let on = lines
            .chunks(2)
            .skip(4)
            .any(|pair| pair[0].contains(what) && pair.get(1).is_some_and(|at| at.contains("RRR")));
        if on {
            press(app, &[Key::Enter]);
            return;
        }
        press(app, &[Key::Down]);
    }
    panic!("{what} cannot be selected:\n{}", text(app));
}

#[test]
fn causes_flows_and_the_table_open_from_the_page() {
    let mut app = page(LOSS, USUAL);
    let (title, flow) = (worst(&app).title.clone(), worst(&app).flows[0].clone());
    assert!(!worst(&app).effects.is_empty(), "{:?}", worst(&app));
    open(&mut app, " leads to ");
    assert_eq!(app.view.screen, Screen::Problem);
    assert!(
        !text(&app).lines().skip(4).any(|line| line.contains(&title)),
        "the effect has a page of its own"
    );
    press(&mut app, &[Key::Esc]);
    assert_eq!(app.view.screen, Screen::Problem);
    open(&mut app, "the table of queue pairs");
    assert_eq!(app.view.screen, Screen::Qps);
    assert_eq!(app.screens.flows.order.len(), worst(&app).flows.len());
    press(&mut app, &[Key::Char('1'), Key::Enter]);
    open(&mut app, &format!("QP {}", flow.dest_qp));
    assert_eq!((app.view.screen, app.view.selected.unwrap().key.dest_qp), (Screen::Detail, flow.dest_qp));
    press(&mut app, &[Key::Esc]);
    assert_eq!(app.view.screen, Screen::Problem);
    press(&mut app, &[Key::Esc]);
    assert_eq!(app.view.screen, Screen::Overview);
}

#[test]
fn the_selected_command_is_copied() {
    for size in SIZES {
        let mut app = live(size);
        let commands: Vec<String> =
            worst(&app).steps.iter().filter_map(|step| step.command.clone()).collect();
        assert!(!commands.is_empty());
        assert_eq!(press(&mut app, &[Key::Char('y')]), Action::Copy(commands[0].clone()), "{}", text(&app));
        assert!(text(&app).contains(&format!("copied: {}", commands[0])));
    }
    let mut none = app(&World::healthy(), USUAL);
    press(&mut none, &[Key::Char('6')]);
    assert_eq!(press(&mut none, &[Key::Char('y')]), Action::Draw);
    assert!(text(&none).contains("nothing selected to copy"));
}

#[test]
fn a_click_selects_and_another_opens() {
    let mut app = page(LOSS, (160, 48));
    let screen = text(&app);
    let y = screen.lines().position(|line| line.contains("the table of queue pairs")).unwrap();
    for _ in 0..2 {
        let _ = app.on_mouse(Mouse::Click(10, u16::try_from(y).unwrap()));
    }
    assert_eq!(app.view.screen, Screen::Qps);
}

#[test]
fn a_problem_that_is_not_there_at_the_time_shown_says_so() {
    let mut app = live(USUAL);
    app.on_restart();
    let screen = text(&app);
    assert!(screen.contains("not present at the time shown"), "{screen}");
    press(&mut app, &[Key::Down, Key::Enter, Key::Char('y'), Key::Esc]);
    assert_eq!(app.view.screen, Screen::Overview);
}

#[test]
fn the_list_of_findings_has_the_page_of_the_selected_one_below_where_there_is_room() {
    let mut app = after(&World::sick(), (160, 48), 30);
    press(&mut app, &[Key::Char('8')]);
    let title = |app: &App, at: usize| app.view.concluded().unwrap().findings[at].title.clone();
    let times = |app: &App, at: usize| text(app).matches(&title(app, at)).count();
    assert!(text(&app).contains("╭ DO NEXT") && text(&app).contains("╭ TIMELINE"), "{}", text(&app));
    assert_eq!(times(&app, 0), 3, "verdict, list and page: {}", text(&app));
    press(&mut app, &[Key::Down, Key::Down]);
    assert!(times(&app, 1) > 1, "{}", text(&app));
    app.on_resize(120, 40);
    assert!(!text(&app).contains("╭ DO NEXT"), "{}", text(&app));
}
