package control

import "sigs.k8s.io/controller-runtime/pkg/client"

// History keeps what policies, groups and tiers were. It is told from the goroutines of informers,
// and must not make them wait.
type History interface {
	// Changed tells of an object that is new or has changed, its status included. It must not be
	// modified.
	Changed(o client.Object)
	// Deleted tells of one that is gone.
	Deleted(o client.Object)
	// Synced tells that all objects that there were at first have been told of.
	Synced()
}

// hasHistory tells the kinds that people write to say what is allowed.
func (k kind) hasHistory() bool {
	return k.isPolicy() || k == kindGroup || k == kindClusterGroup || k == kindTier
}

// tellHistory hands on what an informer says of an object.
func (c *Controller) tellHistory(k kind, o any, gone bool) {
	object, ok := o.(client.Object)
	if c.Options.History == nil || !ok || !k.hasHistory() {
		return
	}
	if gone {
		c.Options.History.Deleted(object)
		return
	}
	c.Options.History.Changed(object)
}
