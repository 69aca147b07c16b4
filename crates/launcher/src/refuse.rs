//! How a step that fails becomes a refusal: the layer, what was tried and why it failed, what to do about it.

use std::fmt::Display;

use omoi_launcher::{Layer, Refusal, Report, Status};

pub type Result<T> = std::result::Result<T, Refusal>;

pub fn refusal(layer: Layer, detail: impl Display, fix: impl Display) -> Refusal {
    Refusal { layer, detail: detail.to_string(), fix: fix.to_string() }
}

pub trait OrRefuse<T> {
    /// Names the layer, what was tried, and the way out.
    fn or_refuse(self, layer: Layer, tried: impl Display, fix: impl Display) -> Result<T>;

    /// For steps that only fail when something is wrong with the machine or with us.
    fn or_broken(self, layer: Layer, tried: impl Display) -> Result<T>
    where
        Self: Sized,
    {
        self.or_refuse(layer, tried, "see what the kernel log says; `omoi-launcher probe` tries each layer")
    }
}

impl<T, E: Display> OrRefuse<T> for std::result::Result<T, E> {
    fn or_refuse(self, layer: Layer, tried: impl Display, fix: impl Display) -> Result<T> {
        self.map_err(|error| refusal(layer, format_args!("cannot {tried}: {error}"), fix))
    }
}

/// What became of each layer so far.
#[derive(Debug, Default)]
pub struct Reports(pub Vec<Report>);

impl Reports {
    pub fn yes(&mut self, layer: Layer, detail: impl Display) {
        self.add(layer, Status::Yes, detail, "");
    }

    pub fn reduced(&mut self, layer: Layer, detail: impl Display, fix: impl Display) {
        self.add(layer, Status::Reduced, detail, fix);
    }

    pub fn no(&mut self, layer: Layer, detail: impl Display, fix: impl Display) {
        self.add(layer, Status::No, detail, fix);
    }

    fn add(&mut self, layer: Layer, status: Status, detail: impl Display, fix: impl Display) {
        let (detail, fix) = (detail.to_string(), fix.to_string());
        self.0.push(Report { layer, status, detail, fix });
    }
}
