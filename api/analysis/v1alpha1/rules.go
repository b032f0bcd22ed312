package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// EffectiveRules asks which rules hold for a machine or Pod, or what all rules are good for.
// +kubebuilder:object:root=true
type EffectiveRules struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   EffectiveRulesSpec   `json:"spec"`
	Status EffectiveRulesStatus `json:"status,omitempty"`
}

// EffectiveRulesSpec is the question.
type EffectiveRulesSpec struct {
	// Of are the endpoints that the rules apply to, as in a ReachReview. Without it the answer is
	// Rules, about all rules.
	Of string `json:"of,omitempty"`
	// Unused leaves in Rules only the rules that decide nothing. With Since it also leaves those
	// that have decided nothing.
	Unused bool `json:"unused,omitempty"`
	// Since has Rules say what each rule has decided since that time, of what agents have seen.
	Since *metav1.MicroTime `json:"since,omitempty"`
}

// EffectiveRulesStatus is the answer.
type EffectiveRulesStatus struct {
	Seen `json:",inline"`

	Endpoints []EffectiveEndpoint `json:"endpoints,omitempty"`
	Rules     []RuleUse           `json:"rules,omitempty"`
	// Traffic is the traffic that Rules have decided about; absent if Since is.
	Traffic *RuleTraffic `json:"traffic,omitempty"`
}

// RuleTraffic is the traffic that rules have decided about.
type RuleTraffic struct {
	// Since is from when on it is known.
	Since metav1.MicroTime `json:"since"`
	// Enforcers have reported any within the last hour.
	Enforcers int32 `json:"enforcers"`
	// More is how many entries are not counted, because they are of too many rules.
	More int64 `json:"more,omitempty"`
}

// EffectiveEndpoint is what holds for a machine or Pod, of one with several interfaces for one of
// them.
type EffectiveEndpoint struct {
	Name      string             `json:"name"`
	Interface string             `json:"interface,omitempty"`
	Ingress   EffectiveDirection `json:"ingress"`
	Egress    EffectiveDirection `json:"egress"`
}

// EffectiveDirection is what holds in one direction.
type EffectiveDirection struct {
	// NotEnforced is the mode because of which the policies do not decide, and the object that sets
	// it.
	NotEnforced string `json:"notEnforced,omitempty"`
	// Failsafe is the account, and HostFailsafe the host, whose failsafe flows are allowed before
	// any rule.
	Failsafe     string          `json:"failsafe,omitempty"`
	HostFailsafe string          `json:"hostFailsafe,omitempty"`
	Rules        []EffectiveRule `json:"rules,omitempty"`
	// Default is what becomes of the rest: Allow, Drop or Native.
	Default    string   `json:"default"`
	IsolatedBy []Policy `json:"isolatedBy,omitempty"`
}

// EffectiveRule is a rule, in the order in which they are asked.
type EffectiveRule struct {
	Rule Rule `json:"rule"`
	// Peers are the addresses at the other end, and Names the domain names, as they are now. A
	// caller who does not see all Namespaces gets no Peers.
	Peers []string `json:"peers,omitempty"`
	Names []string `json:"names,omitempty"`
	// PeersText says in words which addresses these are, and counts what is too much to be named.
	PeersText string `json:"peersText,omitempty"`
	Traffic   string `json:"traffic"`
	// Decides tells whether it decides anything here; if not, By are the rules that leave it
	// nothing.
	Decides bool   `json:"decides"`
	By      []Rule `json:"by,omitempty"`
}

// RuleUse says what a rule is good for.
type RuleUse struct {
	Rule Rule `json:"rule"`
	// Use is Used, AppliesToNobody, PeersNobody, Shadowed, Skipped or Unjudged.
	Use string `json:"use"`
	// Endpoints is how many machines and Pods the rule applies to.
	Endpoints int32 `json:"endpoints"`
	// By are the rules because of which it decides nothing.
	By []Rule `json:"by,omitempty"`
	// Connections is how many connections it has decided about, and Last when last; absent if they
	// were not asked for, Last also if there are none. Agents do not tell apart the rules of a
	// Kubernetes NetworkPolicy: Together says that all its rules in the direction are counted in
	// one.
	Connections *int64            `json:"connections,omitempty"`
	Last        *metav1.MicroTime `json:"last,omitempty"`
	Together    bool              `json:"together,omitempty"`
}
