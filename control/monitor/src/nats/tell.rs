//! Events to a NATS subject: `spraycheck.NAME.events`, kept for a week in a stream of their own.

use std::time::Duration;

use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::stream::Config;

use super::{System, chain};
use crate::core::Event;
use crate::outlet::{NotTaken, Told};

/// Events are kept for so long, and so many bytes of them; then the oldest go.
const KEPT: Duration = Duration::from_secs(7 * 86_400);
const BYTES_MAX: i64 = 64 << 20;

/// Where events go.
#[derive(Debug)]
pub(crate) struct Subject {
    system: System,
    subject: String,
}

impl Subject {
    /// That of a fabric.
    pub(crate) fn new(system: System) -> Subject {
        Subject {
            subject: format!("spraycheck.{}.events", system.name),
            system,
        }
    }

    /// Publishes an event; its stream is made if it is not there.
    pub(crate) async fn tell(&self, event: &Event) -> Result<(), NotTaken> {
        let told = Told {
            fabric: &self.system.name,
            event,
        };
        let body = serde_json::to_vec(&told).map_err(|e| NotTaken::Ever(e.to_string()))?;
        let yet = |error: &dyn std::error::Error| NotTaken::Yet(chain(error));
        let wanted = Config {
            name: format!("{}-events", self.system.stream()),
            description: Some("What is told of links".to_owned()),
            subjects: vec![self.subject.clone()],
            max_age: KEPT,
            max_bytes: BYTES_MAX,
            ..Config::default()
        };
        let context = &self.system.context;
        context
            .get_or_create_stream(wanted)
            .await
            .map_err(|e| yet(&e))?;
        // The time tells events of a history that was begun anew from those of the one before.
        let id = format!("{}/{}/{}", self.system.name, event.id, event.at_ns);
        let message = PublishMessage::build().payload(body.into()).message_id(id);
        let sent = context.send_publish(self.subject.clone(), message).await;
        let acknowledged = sent.map_err(|e| yet(&e))?.await;
        acknowledged.map(drop).map_err(|e| yet(&e))
    }
}
