//! An e-mail for each order: an effect outside of the transaction, so an event may be handed over again. The event's id
//! tells what has been sent already.

use highwater::{BoxError, Event, EventTypes, Permanent, Projection, StateIs, SubscriberOptions};

use super::{EMAILS, now};
use crate::{Database, Order, Value, sql};

/// Confirms each order to its customer. An address that is none goes to the dead letters.
#[derive(Debug)]
pub struct Emails {
    instance: u32,
    /// Stands for a mail service that takes an idempotency key, as most do.
    service: Database,
}

impl Emails {
    /// In the instance of that number.
    #[must_use]
    pub fn new(instance: u32, service: Database) -> Self {
        Self { instance, service }
    }
}

impl Projection<Order> for Emails {
    const STATE: StateIs = StateIs::Nothing;

    fn subscriber_id(&self) -> &str {
        EMAILS
    }

    fn options(&self) -> SubscriberOptions {
        SubscriberOptions::new().event_types(EventTypes::only(["Placed"]))
    }

    async fn apply(&self, event: &Event<Order>) -> Result<(), BoxError> {
        let customer = event.data.customer();
        let found: Vec<(String,)> = self.service.rows(sql::ADDRESS, &[Value::Int(customer)]).await?;
        let Some((address,)) = found.into_iter().next() else {
            return Err(Permanent::new(format!("there is no customer {customer}")).into());
        };
        if !address.contains('@') {
            // Retrying is no use before an operator has repaired it.
            return Err(Permanent::new(format!("{address:?} is not an address")).into());
        }
        let (instance, at) = (Value::Int(self.instance.into()), Value::Int(now()));
        let sent = [Value::Id(event.id), Value::Text(&address), instance, at];
        self.service.execute(sql::EMAIL_SEND, &sent).await?;
        Ok(())
    }
}
