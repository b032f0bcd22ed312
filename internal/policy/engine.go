package policy

// Options choose between readings of the policy language.
type Options struct {
	// ReferenceNamespacePeers reproduces the Antrea Controller's reading of rules with `namespaces` peers whose
	// appliedTo names a group (the rule then applies to all Pods of each Namespace of the group, not to the group's
	// members) or whose appliedTo entries overlap (the last one wins). Off, the rule applies to exactly what appliedTo
	// selects.
	ReferenceNamespacePeers bool
}

// Engine computes policies. See the package comment for its contract; use New.
type Engine struct {
	options Options
}

// New returns an Engine that knows the system tiers and nothing else.
func New(options Options) *Engine { return &Engine{options: options} }

// PutNamespace adds or replaces a Namespace.
func (e *Engine) PutNamespace(n Namespace) {}

// DeleteNamespace forgets a Namespace. Its entities and policies stay until they are deleted themselves.
func (e *Engine) DeleteNamespace(name string) {}

// PutEntity adds or replaces an entity.
func (e *Engine) PutEntity(x Entity) {}

// DeleteEntity forgets an entity.
func (e *Engine) DeleteEntity(ref EntityRef) {}

// PutService adds or replaces a Service.
func (e *Engine) PutService(s Service) {}

// DeleteService forgets a Service.
func (e *Engine) DeleteService(name NamespacedName) {}

// PutTier adds or replaces a Tier.
func (e *Engine) PutTier(t Tier) {}

// DeleteTier forgets a Tier; a system tier falls back to its built-in priority.
func (e *Engine) DeleteTier(name string) {}

// PutGroup adds or replaces a Group or ClusterGroup.
func (e *Engine) PutGroup(g Group) {}

// DeleteGroup forgets a Group, or with an empty Namespace a ClusterGroup.
func (e *Engine) DeleteGroup(name NamespacedName) {}

// PutPolicy adds the policy, or replaces the one with the same UID.
func (e *Engine) PutPolicy(p Policy) {}

// DeletePolicy forgets the policy with the given UID.
func (e *Engine) DeletePolicy(uid string) {}

// Commit brings everything computed up to date and returns what changed since the last Commit.
func (e *Engine) Commit() *Delta { return &Delta{} }

// Listing returns everything computed as of the last Commit. Its cost is the size of the result.
func (e *Engine) Listing() *Listing { return &Listing{} }

// SystemTiers returns the tiers that always exist, in order of priority.
func SystemTiers() []Tier {
	return []Tier{
		{"emergency", 50}, {"securityops", 100}, {"networkops", 150}, {"platform", 200}, {"application", 250}, {"baseline", 253},
	}
}

// For returns the part of the change that the enforcer with the given key sees; an empty key stands for a receiver of
// all keys. No identity is in both lists.
func (d *GroupDelta) For(key string) (added, removed []*Member) { return nil, nil }
