package control

import "sigs.k8s.io/controller-runtime/pkg/client"

// History keeps former versions of policies, groups and tiers. The goroutines of informers call it,
// so it must not make them wait.
type History interface {
	// Changed reports an object that is new or has changed, its status included. It must not be
	// modified.
	Changed(o client.Object)
	// Deleted reports an object that is gone.
	Deleted(o client.Object)
	// Synced reports that all objects that existed at the start have been reported.
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
