//! How much work an evaluation does, counted in tests alone: how long it takes says nothing on a busy machine.

#[cfg(test)]
thread_local! {
    static STEPS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// So many comparisons were made, or bytes looked at.
#[cfg(test)]
pub fn step(count: usize) {
    STEPS.with(|steps| steps.set(steps.get() + count as u64));
}

#[cfg(not(test))]
pub fn step(_count: usize) {}

/// The steps that something takes.
#[cfg(test)]
pub fn taken(run: impl FnOnce()) -> u64 {
    let before = STEPS.with(std::cell::Cell::get);
    run();
    STEPS.with(std::cell::Cell::get) - before
}
