package azure

// Verdicts say what becomes of flows and packets, and by which rules. They are reads.
type Verdicts struct{ cloud *Cloud }

// Verdicts returns that view of the cloud.
func (c *Cloud) Verdicts() Verdicts { return Verdicts{c} }

// checks say whether the cloud would take a resource as it is to be.
type checks struct{ cloud *Cloud }

// access says whether a change is allowed now: by its subscription, by locks, and by what is under
// way.
type access struct{ cloud *Cloud }

// edits make the next version of a resource, of those in it, and of what goes with it.
type edits struct{ cloud *Cloud }
