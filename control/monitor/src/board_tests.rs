//! Tests of the board: what is kept ready is what would be made anew.

use detector::{Fabric, LeafId, Nanos, SpineId};
use proptest::prelude::*;

use super::*;
use crate::core::{Core, Rules};

/// 288 links: three parts, the last of 32.
const FABRIC: Fabric = Fabric {
    leaves: 12,
    spines: 12,
};

/// What happens to a link.
#[derive(Clone, Debug)]
enum Step {
    /// Packets pass: only its numbers change.
    Passed(usize, u64),
    /// It looks different.
    Accused(usize, State, f64),
    /// A part has its turn.
    Turn,
    /// What may look different is made anew and told.
    Publish,
}

fn step() -> impl Strategy<Value = Step> {
    let link = 0..FABRIC.links() as usize;
    let state = proptest::sample::select(State::ALL.to_vec());
    prop_oneof![
        (link.clone(), 1..1_000_000u64).prop_map(|(link, packets)| Step::Passed(link, packets)),
        (link, state, 0.0..1.0f64).prop_map(|(link, state, rate)| Step::Accused(link, state, rate)),
        Just(Step::Turn),
        Just(Step::Publish),
    ]
}

/// The rows as text of all pieces.
fn text(links: &Links) -> String {
    let whole: Vec<u8> = links.text().flat_map(|piece| piece.to_vec()).collect();
    format!("[{}]", String::from_utf8(whole).unwrap())
}

fn place(rows: &[Row], link: Link) -> usize {
    rows.binary_search_by_key(&link, |row| row.link).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Goal: after any changes, nothing that looks different is left out of what is published and told, and the text says
    /// what the rows say; after a turn of every part it is the text made anew.
    #[test]
    fn the_text_that_is_kept_is_the_one_made_anew(steps in proptest::collection::vec(step(), 1..120)) {
        let mut truth = Core::new(Rules::new(FABRIC)).rows(Nanos(0));
        let mut board = Board::new(&truth);
        let mut page = truth.clone();
        let mut changed = Vec::new();
        for step in steps.into_iter().chain([Step::Publish]) {
            let row = |link| Some(truth[place(&truth, link)].clone());
            match step {
                Step::Passed(link, packets) => truth[link].covered.packets += packets,
                Step::Accused(link, state, rate) => {
                    (truth[link].state, truth[link].drop_rate) = (state, rate);
                    changed.push(truth[link].link);
                }
                Step::Turn => board.turn(row),
                Step::Publish => {
                    board.change(&changed, row);
                    changed.clear();
                    for told in board.take_untold() {
                        let at = place(&truth, told.link);
                        page[at] = told;
                    }
                    let links = board.links();
                    prop_assert_eq!(links.rows().count(), truth.len());
                    for ((shown, page), truth) in links.rows().zip(&page).zip(&truth) {
                        prop_assert!(!looks_different(shown, truth), "{shown:?} is {truth:?}");
                        prop_assert!(!looks_different(page, truth), "{page:?} is {truth:?}");
                    }
                    let rows: Vec<&Row> = links.rows().collect();
                    prop_assert_eq!(text(&links), serde_json::to_string(&rows).unwrap());
                }
            }
        }
        for _ in 0..board.parts() {
            board.turn(|link| Some(truth[place(&truth, link)].clone()));
        }
        prop_assert_eq!(text(&board.links()), serde_json::to_string(&truth).unwrap());
        prop_assert!(board.take_untold().is_empty());
    }
}

/// Goal: who reads keeps what was published when it began, and parts that did not change are not made again.
#[test]
fn what_was_published_stays() {
    let mut rows = Core::new(Rules::new(FABRIC)).rows(Nanos(0));
    let mut board = Board::new(&rows);
    let (before, old) = (board.links(), rows.clone());
    let link = Link::Down {
        spine: SpineId(11),
        leaf: LeafId(11),
    };
    let last = rows.len() - 1;
    assert_eq!(rows[last].link, link);
    rows[last].covered.packets = 17;
    board.change(&[link], |link| Some(rows[place(&rows, link)].clone()));
    let after = board.links();
    assert!(before.rows().eq(old.iter()) && after.rows().eq(rows.iter()));
    let same: Vec<bool> = (before.0.iter().zip(after.0.iter()))
        .map(|(old, new)| Arc::ptr_eq(old, new))
        .collect();
    assert_eq!(same, [true, true, false]);
}
