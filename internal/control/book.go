package control

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	cloudv1alpha1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/clusterset/peers"
	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/policy/compute"
	"github.com/nephele-io/nephele/internal/policy/translate"
)

// Reasons of Realizable False, besides the API's.
const (
	// ReasonInvalid: the policy cannot be computed, the message says why.
	ReasonInvalid = "NetworkPolicyInvalid"
	// ReasonStaged: the policy is not enforced, because its author wants it so. Realizable is True.
	ReasonStaged = "Staged"
	// ReasonGroupInvalid is the reason of GroupMembersComputed False, unless children nest too
	// deep.
	ReasonGroupInvalid = "GroupInvalid"
)

// maxFailureMessage is the length at which the list of failed enforcers in a condition is cut.
const maxFailureMessage = 256

// book is what is known of policies and groups besides what the engine holds: what enforcers
// report, and what is wrong.
type book struct {
	// concerns says whether a computed policy concerns an enforcer.
	concerns func(uid types.UID, key string) bool
	// attended returns the enforcers that a computed policy concerns and is given to: they watch.
	attended func(uid types.UID) []string

	mu       sync.Mutex
	policies map[types.UID]*policyPage
	// empty are the policies without rules.
	empty  map[types.UID]struct{}
	groups map[policy.NamespacedName]policy.Problem
	// silent are the enforcers that are not heard of, and since when.
	silent map[string]time.Time
	// differing says of policies how traffic is not as they say.
	differing map[types.UID]Differing
	// early is what is known of policies in other clusters before the policies themselves are.
	early map[types.UID][]v1beta1.ClusterRealization
	// notes say what is to be known of remote groups.
	notes map[string]string
}

// policyPage is what is known of one policy.
type policyPage struct {
	kind kind
	policy.PolicyRef
	declared int64
	// copied: it is a copy of a policy of the hub that has no status of its own, and is followed.
	copied bool
	// staged: it is not to be enforced, and the engine has not got it.
	staged bool
	// spread: it is for clusters of the set, and the engine has not got it. clusters is how far
	// it is realized there.
	spread   bool
	clusters []v1beta1.ClusterRealization
	// remote are the remote groups that a policy of this cluster names, by id, with where it does.
	remote map[string]string
	// told is the last problem for which an Event was recorded.
	told string
	// refused is what admission finds wrong with the policy, errors what the engine does; warnings
	// do not stand in the way.
	refused, errors, warnings []policy.FieldError
	// computed is false until the engine has computed the policy, and again while it cannot.
	computed   bool
	generation int64
	// empty: there are no rules. Antrea Agents do not report such policies: it is enough that one
	// is given to them.
	empty bool
	// desired is the number of enforcers that the policy concerns; reports are from them, or from
	// some that it did concern.
	desired int
	// dropped: a cloud account was the last of them, and is not any more.
	dropped bool
	reports map[string]v1beta2.NetworkPolicyNodeStatus
}

func newBook(concerns func(types.UID, string) bool, attended func(types.UID) []string) *book {
	return &book{
		concerns: concerns, attended: attended,
		policies: map[types.UID]*policyPage{}, empty: map[types.UID]struct{}{},
		early: map[types.UID][]v1beta1.ClusterRealization{}, groups: map[policy.NamespacedName]policy.Problem{},
	}
}

// declare notes a policy as its author wants it, and what is wrong with it. It reports false if
// that is known already.
func (b *book) declare(uid types.UID, k kind, p policy.Policy, refused []policy.FieldError, staged, spread bool) bool {
	// Policies without a status have a page only while there is a problem with them.
	if !k.hasStatus() && len(refused) == 0 {
		return true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	page, ok := b.policies[uid]
	if ok && page.declared == p.Generation && page.staged == staged && page.spread == spread && p.Generation != 0 {
		return false
	}
	if !ok {
		page = &policyPage{clusters: b.early[uid]}
		delete(b.early, uid)
		b.policies[uid] = page
	}
	page.kind, page.declared, page.refused, page.staged, page.spread, page.remote = k, p.Generation, refused, staged, spread, peers.Paths(&p)
	page.PolicyRef = policy.PolicyRef{Kind: p.Kind, Namespace: p.Namespace, Name: p.Name, UID: p.UID}
	return true
}

// copy notes a copy of a policy of the hub that has no status of its own.
func (b *book) copy(uid types.UID, p policy.Policy) {
	b.mu.Lock()
	defer b.mu.Unlock()
	page := b.policies[uid]
	if page == nil {
		page = &policyPage{kind: kindK8sPolicy}
		b.policies[uid] = page
	}
	page.copied, page.declared = true, p.Generation
	page.PolicyRef = policy.PolicyRef{Kind: p.Kind, Namespace: p.Namespace, Name: p.Name, UID: p.UID}
}

// copies returns the copies of policies of the hub that have no status of their own.
func (b *book) copies() []types.UID {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []types.UID
	for uid, page := range b.policies {
		if page.copied {
			out = append(out, uid)
		}
	}
	return out
}

// followed reports whether somebody wants to know how far the policy is realized.
func (p *policyPage) followed() bool { return p.kind.hasStatus() || p.copied }

func (b *book) forgetPolicy(uid types.UID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.policies, uid)
	delete(b.empty, uid)
}

func (b *book) forgetGroup(name policy.NamespacedName) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.groups, name)
}

// record notes what the engine computed and adds to a list whose status that may change.
func (b *book) record(out []task, c *compute.Changes) []task {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.note(out, c, false)
}

// restart is record of everything, from an engine that begins anew. What enforcers report stays.
func (b *book) restart(out []task, c *compute.Changes) []task {
	b.mu.Lock()
	defer b.mu.Unlock()
	for uid, page := range b.policies {
		page.computed, page.desired, page.errors, page.warnings = false, 0, nil, nil
		if page.followed() {
			out = append(out, task{kind: taskPolicy, name: string(uid)})
		}
	}
	for name := range b.groups {
		out = append(out, task{kind: taskGroup, namespace: name.Namespace, name: name.Name})
	}
	clear(b.groups)
	return b.note(out, c, true)
}

// fails notes that a policy cannot be computed by a fault of ours.
func (b *book) fails(uid types.UID, fault error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if page := b.policies[uid]; page != nil {
		page.refused = append(slices.Clip(page.refused), policy.FieldError{Field: "spec", Given: "what cannot be computed (" + fault.Error() + ")", Want: "another form; what was computed before stays in force"})
	}
}

// note is record, with anew of an engine that begins anew. The caller holds the lock.
func (b *book) note(out []task, c *compute.Changes, anew bool) []task {
	for p := range c.Policies() {
		if len(b.policies) == 0 {
			break // as in a cluster with nothing but Kubernetes policies
		}
		uid := types.UID(p.Policy.Source.UID)
		page := b.policies[uid]
		if page == nil {
			continue
		}
		page.computed = p.Change != policy.Removed
		page.generation, page.empty = p.Policy.Generation, len(p.Policy.Rules) == 0
		if delete(b.empty, uid); page.empty {
			b.empty[uid] = struct{}{}
		}
		page.spanned(p.SpanRemoved, p.SpanAdded)
		// An enforcer that the policy concerns again gets the policy and reports anew. A report
		// that was under way when it ceased to concern the enforcer counts for nothing.
		if !anew {
			for _, key := range slices.Concat(p.SpanRemoved, p.SpanAdded) {
				delete(page.reports, key)
			}
		}
		if page.followed() {
			out = append(out, task{kind: taskPolicy, name: page.UID})
		}
	}
	for _, p := range c.Problems() {
		if p.Policy.UID == "" {
			b.groups[p.Group] = p
			out = append(out, task{kind: taskGroup, namespace: p.Group.Namespace, name: p.Group.Name})
			continue
		}
		uid := types.UID(p.Policy.UID)
		if p.Policy.Kind == policy.KubernetesNetworkPolicy {
			page := b.policies[uid]
			if page != nil && !page.copied && len(p.Errors)+len(p.Warnings) == 0 {
				delete(b.policies, uid)
			} else if page == nil && len(p.Errors)+len(p.Warnings) > 0 {
				b.policies[uid] = &policyPage{kind: kindK8sPolicy, PolicyRef: p.Policy}
			}
		}
		if page := b.policies[uid]; page != nil {
			page.errors, page.warnings = p.Errors, p.Warnings
			out = append(out, task{kind: taskPolicy, name: page.UID})
		}
	}
	return out
}

// report notes what enforcers say about a policy; false means that the policy is not known, or has
// no status to show it in.
func (b *book) report(uid types.UID, nodes []v1beta2.NetworkPolicyNodeStatus) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	page := b.policies[uid]
	if page == nil || !page.followed() {
		return false
	}
	for _, n := range nodes {
		page.noted(n)
	}
	return true
}

// noted notes what an enforcer says. The caller holds the lock of the book.
func (p *policyPage) noted(n v1beta2.NetworkPolicyNodeStatus) {
	if p.reports == nil {
		p.reports = map[string]v1beta2.NetworkPolicyNodeStatus{}
	}
	p.reports[n.NodeName] = n
}

// begin returns the policies without rules that concern an enforcer which begins to watch: they
// count as realized there, if it says nothing else.
func (b *book) begin(key string) (changed []types.UID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for uid := range b.empty {
		if page := b.policies[uid]; page != nil && page.computed && page.followed() && page.reports[key].Generation != page.generation && b.concerns(uid, key) {
			changed = append(changed, uid)
		}
	}
	return changed
}

// listen notes which enforcers are silent, and returns the policies whose status that changes.
func (b *book) listen(silent map[string]time.Time) (changed []types.UID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if maps.Equal(b.silent, silent) {
		return nil
	}
	before := b.silent
	b.silent = silent
	for uid, page := range b.policies {
		for key := range page.reports {
			was, is := before[key]
			now, still := silent[key]
			if is != still || !was.Equal(now) {
				changed = append(changed, uid)
				break
			}
		}
	}
	return changed
}

// differ notes the policies that traffic differs from, and returns the policies whose status
// changes by that.
func (b *book) differ(now map[types.UID]Differing) (changed []types.UID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	before := b.differing
	b.differing = now
	for uid, d := range now {
		if before[uid] != d {
			changed = append(changed, uid)
		}
	}
	for uid := range before {
		if _, still := now[uid]; !still {
			changed = append(changed, uid)
		}
	}
	return changed
}

// reported returns what an enforcer has reported about a policy last.
func (b *book) reported(uid types.UID, key string) (v1beta2.NetworkPolicyNodeStatus, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	page := b.policies[uid]
	if page == nil {
		return v1beta2.NetworkPolicyNodeStatus{}, false
	}
	n, ok := page.reports[key]
	return n, ok
}

// verdict is what the status of a policy should say.
type verdict struct {
	kind kind
	policy.PolicyRef
	status v1beta1.NetworkPolicyStatus
	// problem is what is wrong with the policy itself, once per problem: tell says whether it is
	// new.
	problem string
	tell    bool
}

// policyVerdict returns what is known of a policy, or false if nothing is.
func (b *book) policyVerdict(uid types.UID) (verdict, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	page := b.policies[uid]
	if page == nil {
		return verdict{}, false
	}
	v := verdict{kind: page.kind, PolicyRef: page.PolicyRef, problem: policy.JoinErrors(slices.Concat(page.refused, page.errors, page.warnings))}
	v.tell = v.problem != "" && v.problem != page.told
	page.told = v.problem
	if page.empty && page.computed {
		// What says nothing of a policy without rules enforces it as soon as it is given to it. An
		// enforcer that is not there does not.
		for _, key := range b.attended(uid) {
			if page.reports[key].Generation != page.generation {
				page.noted(v1beta2.NetworkPolicyNodeStatus{NodeName: key, Generation: page.generation})
			}
		}
	}
	v.status = page.status(func(key string) bool { return b.concerns(uid, key) }, b.silent)
	if note := page.peerNote(b.notes); note != "" && page.computed && len(page.refused)+len(page.errors) == 0 {
		v.status.Conditions = append(v.status.Conditions, v1beta1.NetworkPolicyCondition{
			Type: v1beta1.NetworkPolicyConditionPeersKnown, Status: metav1.ConditionFalse, Reason: v1beta1.ReasonOtherClusters, Message: note,
		})
		v.status.Message = shortened(note)
	}
	if d, differs := b.differing[uid]; differs {
		v.status.Conditions = append(v.status.Conditions, v1beta1.NetworkPolicyCondition{
			Type: v1beta1.NetworkPolicyConditionTrafficAgrees, Status: metav1.ConditionFalse, Reason: d.Reason, Message: d.Message,
		})
		text := d.Message
		if v.status.Message != "" {
			text += "; " + v.status.Message
		}
		v.status.Message = shortened(text)
	}
	return v, true
}

func (p *policyPage) status(concerns func(key string) bool, silent map[string]time.Time) v1beta1.NetworkPolicyStatus {
	realizable := v1beta1.NetworkPolicyCondition{Type: v1beta1.NetworkPolicyConditionRealizable, Status: metav1.ConditionTrue}
	s := v1beta1.NetworkPolicyStatus{Phase: v1beta1.NetworkPolicyPending, ObservedGeneration: p.declared}
	if wrong := slices.Concat(p.refused, p.errors); len(wrong) > 0 {
		s.Phase = v1beta1.NetworkPolicyFailed
		realizable.Status, realizable.Reason, realizable.Message = metav1.ConditionFalse, ReasonInvalid, policy.JoinErrors(wrong)
		if slices.ContainsFunc(wrong, func(e policy.FieldError) bool { return e.Want == translate.WantOwnNamespace }) {
			realizable.Reason = v1beta1.ReasonAppliedToUnsupportedGroup
		}
		s.Conditions, s.Message = []v1beta1.NetworkPolicyCondition{realizable}, shortened(realizable.Message)
		return s
	}
	if p.staged {
		s.Phase = v1beta1.NetworkPolicyStaged
		realizable.Reason, realizable.Message = ReasonStaged, stagedMessage
		s.Conditions, s.Message = []v1beta1.NetworkPolicyCondition{realizable}, stagedMessage
		return s
	}
	if p.spread {
		return p.inClusters(s, realizable)
	}
	if !p.computed {
		s.Conditions = []v1beta1.NetworkPolicyCondition{realizable}
		return s
	}
	s.ObservedGeneration = p.generation
	s.DesiredNodesRealized = int32(p.desired)
	var failed, planned, suspended []v1beta2.NetworkPolicyNodeStatus
	var unconfirmed []string
	for key, r := range p.reports {
		isPlanned, isSuspended := heldBack(r)
		switch {
		case r.Generation != p.generation || !concerns(key):
		case isPlanned:
			planned = append(planned, r)
		case isSuspended:
			suspended = append(suspended, r)
		case r.RealizationFailure:
			failed = append(failed, r)
		default:
			s.CurrentNodesRealized++
			if _, is := silent[key]; is {
				unconfirmed = append(unconfirmed, key)
			}
		}
	}
	switch {
	case p.desired == 0:
		s.Phase = v1beta1.NetworkPolicyIdle
	case s.CurrentNodesRealized == s.DesiredNodesRealized:
		s.Phase = v1beta1.NetworkPolicyRealized
	case s.CurrentNodesRealized+int32(len(planned)) == s.DesiredNodesRealized:
		s.Phase = v1beta1.NetworkPolicyPlanned
	case s.CurrentNodesRealized+int32(len(planned)+len(suspended)) == s.DesiredNodesRealized:
		s.Phase = v1beta1.NetworkPolicySuspended
	case s.CurrentNodesRealized+int32(len(failed)+len(planned)+len(suspended)) == s.DesiredNodesRealized:
		s.Phase = v1beta1.NetworkPolicyFailed
	default:
		s.Phase = v1beta1.NetworkPolicyRealizing
	}
	realizable.Message = policy.JoinErrors(p.warnings)
	switch {
	case realizable.Message != "":
	case p.desired == 0:
		realizable.Message = idleMessage
	case p.empty:
		realizable.Message = "there are no rules to enforce"
	}
	s.Conditions = []v1beta1.NetworkPolicyCondition{realizable}
	if p.dropped && p.desired == 0 {
		return notEnforced(s)
	}
	if len(failed) > 0 {
		s.Conditions = append(s.Conditions, v1beta1.NetworkPolicyCondition{
			Type: v1beta1.NetworkPolicyConditionRealizationFailure, Status: metav1.ConditionTrue,
			Reason: v1beta1.ReasonRealizationFailedOnNode, Message: failureMessage(failed),
		})
	}
	s.VMs = p.countVMs(concerns)
	s.Message = shortMessage(slices.Concat(failed, suspended, planned), realizable.Message)
	if len(unconfirmed) > 0 {
		text := unconfirmedMessage(unconfirmed, silent)
		s.Conditions = append(s.Conditions, v1beta1.NetworkPolicyCondition{
			Type: v1beta1.NetworkPolicyConditionConfirmed, Status: metav1.ConditionFalse, Reason: v1beta1.ReasonEnforcerSilent, Message: text,
		})
		if len(failed)+len(planned)+len(suspended) > 0 {
			text = s.Message + "; " + text
		}
		s.Message = shortened(text)
	}
	return s
}

// unconfirmedMessage says where a policy was realized and is not confirmed any more.
func unconfirmedMessage(keys []string, silent map[string]time.Time) string {
	slices.SortFunc(keys, func(a, b string) int { return cmp.Or(silent[a].Compare(silent[b]), cmp.Compare(a, b)) })
	text := fmt.Sprintf("not confirmed since %s: the agent on %s is silent", silent[keys[0]].UTC().Format(time.RFC3339), keys[0])
	if more := len(keys) - 1; more > 0 {
		text += fmt.Sprintf(", and %d more", more)
	}
	return text
}

// idleMessage is what the status of a policy says that applies to nothing, if nothing else is to be
// said of it.
const idleMessage = "nothing is selected that an enforcer is responsible for"

// stagedMessage is what the status of a staged policy says.
const stagedMessage = "not enforced: the annotation " + cloudv1alpha1.AnnotationStage + ": " + cloudv1alpha1.StagePlan + " stages it"

func failureMessage(failed []v1beta2.NetworkPolicyNodeStatus) string {
	slices.SortFunc(failed, func(a, b v1beta2.NetworkPolicyNodeStatus) int { return cmp.Compare(a.NodeName, b.NodeName) })
	parts := make([]string, len(failed))
	for i, f := range failed {
		parts[i] = fmt.Sprintf("%q:%q", f.NodeName, f.Message)
	}
	m := fmt.Sprintf("Failed Nodes count %d: %s", len(failed), strings.Join(parts, ", "))
	if len(m) > maxFailureMessage {
		m = cutAtWord(m, maxFailureMessage)
	}
	return m
}

// cutAtWord cuts a text between two words, and says how much of it is left out.
func cutAtWord(text string, length int) string {
	tail := fmt.Sprintf(" ... (%d characters more)", len(text)) // as long as it can become
	head := strings.ToValidUTF8(text[:length-len(tail)], "")
	if space := strings.LastIndexByte(head, ' '); space > 0 {
		head = head[:space]
	}
	return head + fmt.Sprintf(" ... (%d characters more)", len(text)-len(head))
}

// groupCondition is what the status of a group should say.
func (b *book) groupCondition(name policy.NamespacedName) v1beta1.GroupCondition {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := v1beta1.GroupCondition{Type: v1beta1.GroupMembersComputed, Status: metav1.ConditionTrue}
	problem := b.groups[name]
	c.Message = policy.JoinErrors(problem.Warnings)
	if errs := problem.Errors; len(errs) > 0 {
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, ReasonGroupInvalid, policy.JoinErrors(errs)
		if slices.ContainsFunc(errs, func(e policy.FieldError) bool { return strings.HasPrefix(e.Field, "spec.childGroups") }) {
			c.Reason = v1beta1.ReasonChildGroupsNestingExceeded
		}
	}
	return c
}
