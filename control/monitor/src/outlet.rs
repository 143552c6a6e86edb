//! Events to those who want to be told: a webhook, a NATS subject. None is missed, whatever stops or is away.
//!
//! An outlet has a number in the history: up to that event it has told. It reads what comes after from the history, in
//! order, some at a time, and tells one after the other; what is not taken is told again, later and later. So the
//! queue is the history itself, and takes no memory. Who is told anew begins with what comes from then on.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use crate::core::Event;
use crate::http::App;
use crate::nats::tell::Subject;
use crate::shared::Question;
use crate::webhook::Webhook;

/// Without news it looks again after so long.
const LOOK: Duration = Duration::from_secs(5);
/// Time between two attempts; doubled from the first to the last.
const AGAIN: [Duration; 2] = [Duration::from_millis(500), Duration::from_secs(60)];

/// What is sent.
#[derive(Serialize)]
pub(crate) struct Told<'a> {
    /// Name of the fabric.
    pub(crate) fabric: &'a str,
    /// As the history has it.
    #[serde(flatten)]
    pub(crate) event: &'a Event,
}

/// Why an event was not taken.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotTaken {
    /// It may be the next time.
    #[error("{0}")]
    Yet(String),
    /// It never will: it is left out, and counted.
    #[error("{0}")]
    Ever(String),
}

/// Who is told.
#[derive(Debug)]
pub(crate) enum Outlet {
    /// By HTTP.
    Webhook(Webhook),
    /// A NATS subject.
    Nats(Subject),
}

impl Outlet {
    /// Its name in the history, and for people.
    fn name(&self) -> &'static str {
        match self {
            Outlet::Webhook(_) => "webhook",
            Outlet::Nats(_) => "nats",
        }
    }

    async fn tell(&self, event: &Event) -> Result<(), NotTaken> {
        match self {
            Outlet::Webhook(webhook) => webhook.tell(event).await,
            Outlet::Nats(subject) => subject.tell(event).await,
        }
    }
}

/// Tells events for ever.
pub(crate) async fn serve(outlet: Outlet, app: Arc<App>) {
    let name = outlet.name();
    let shared = &app.shared;
    let mut news = shared.listen();
    let mut last = loop {
        match app.read(move |reader| reader.delivered(name)).await {
            Ok(last) => break last,
            Err(error) => tracing::warn!("{name}: {error}"),
        }
        tokio::time::sleep(AGAIN[1]).await;
    };
    // Known from now on, so that a restart before the first event misses none.
    shared.report(Question::Delivered(name, last)).await;
    shared.outlet(name, |state| state.last = last);
    loop {
        let after = last;
        let found = match app.read(move |reader| reader.events_after(after)).await {
            Ok(found) => found,
            Err(error) => {
                tracing::warn!("{name}: {error}");
                Vec::new()
            }
        };
        if found.is_empty() {
            // Whatever wakes it, what is new is found by its number.
            let _ = tokio::time::timeout(LOOK, news.recv()).await;
            continue;
        }
        for event in &found {
            until_taken(&outlet, event, &app).await;
            last = event.id;
            shared.outlet(name, |state| (state.last, state.trouble) = (last, None));
            shared.report(Question::Delivered(name, last)).await;
        }
    }
}

/// Tells one event until it is taken, or refused for good.
async fn until_taken(outlet: &Outlet, event: &Event, app: &App) {
    let (name, shared) = (outlet.name(), &app.shared);
    let mut wait = AGAIN[0];
    loop {
        match outlet.tell(event).await {
            Ok(()) => {
                shared.outlet(name, |state| state.delivered += 1);
                return;
            }
            Err(NotTaken::Ever(why)) => {
                tracing::warn!("{name}: event {} is left out: {why}", event.id);
                shared.outlet(name, |state| state.refused += 1);
                return;
            }
            Err(NotTaken::Yet(why)) => shared.outlet(name, |state| {
                if state.trouble.as_ref() != Some(&why) {
                    tracing::warn!("{name}: {why}; events wait in the history");
                }
                state.failed += 1;
                state.trouble = Some(why);
            }),
        }
        tokio::time::sleep(wait).await;
        wait = (2 * wait).min(AGAIN[1]);
    }
}
