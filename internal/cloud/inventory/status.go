package inventory

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/accountspec"
	"github.com/nephele-io/nephele/internal/cloud/selection"
)

// Reasons besides the reasons of the API package.
const (
	// reasonReleasing: the account is being deleted and something of ours is still in the cloud.
	reasonReleasing = "Releasing"
	// reasonNotWritten: the API server refuses objects of the account.
	reasonNotWritten = "NotWritten"
	// reasonNameTaken: an object that the selector asks for exists and is not the account's, or
	// represents another VM.
	reasonNameTaken = "NameTaken"
)

// verdict is one condition to be.
type verdict struct {
	status          metav1.ConditionStatus
	reason, message string
}

func ok(message string) verdict { return verdict{metav1.ConditionTrue, v1alpha1.ReasonOK, message} }

func no(reason, message string) verdict { return verdict{metav1.ConditionFalse, reason, message} }

func pending(message string) verdict {
	return verdict{metav1.ConditionUnknown, v1alpha1.ReasonPending, message}
}

// report writes the status of the account and its selectors. written is what went wrong with their
// objects.
func (p *pass) report(ctx context.Context, d selection.Desired, s *syncer, written error) error {
	regions := p.regionStatuses(d)
	credentials, reachable := p.judge()
	ready := ok("all regions are read")
	switch {
	case p.deleting():
		ready = no(reasonReleasing, "the account is being deleted; waiting until its interfaces have their former security groups back")
		if meta.IsStatusConditionTrue(p.cpa.Status.Conditions, v1alpha1.ConditionBraked) {
			ready.message += ", which waits for a confirmation: see the condition " + v1alpha1.ConditionBraked
		}
		if p.problem != nil {
			ready.message += ", which needs credentials (the account may be told to take another Secret): " + p.problem.message
		}
	case credentials.status == metav1.ConditionFalse:
		ready = credentials
	case reachable.status != metav1.ConditionTrue:
		ready = reachable
	case written != nil:
		first, _, _ := strings.Cut(written.Error(), "\n")
		ready = no(reasonNotWritten, first)
	}
	errs := []error{p.reportAccount(ctx, regions, []verdict{ready, credentials, reachable})}
	if !p.deleting() {
		total, services, interfaces := 0, 0, 0
		for _, snap := range p.account.snapshots() {
			total += len(snap.VMs)
			services += int(d.Regions[snap.Region].Services)
			interfaces += int(d.Regions[snap.Region].Interfaces)
		}
		_, shows := p.account.whole.(cloud.ServiceShower)
		for n := range p.selectors {
			if !p.readFor(&p.selectors[n]) {
				continue // the next pass reads what it selects
			}
			v := p.judgeSelector(&p.selectors[n], selectorFacts{Selected: d.Selected[n], all: total, allServices: services, allInterfaces: interfaces,
				noServices: p.problem == nil && !shows, account: ready, read: p.anyRead(), taken: untold(s.taken, d.Clashes)})
			v.deletion = accountspec.DeletionPolicyOf(p.cpa)
			if reason, message := selection.Unheeded(p.key(), p.cpa.Spec.ReleaseNamespaces, &p.selectors[n], d.Selected[n].Unheeded, p.loop.opts.Now()); reason != "" {
				v.heeded = no(reason, message)
			}
			errs = append(errs, p.loop.reportSelector(ctx, &p.selectors[n], v, p.account.told))
		}
		for n := range p.refused {
			not := no(v1alpha1.ReasonNotGranted, p.refused[n].Why)
			v := selectorVerdict{ready: not, matched: not, deletion: accountspec.DeletionPolicyOf(p.cpa)}
			errs = append(errs, p.loop.reportSelector(ctx, &p.refused[n].Selector, v, p.account.told))
		}
	}
	return errors.Join(errs...)
}

// generation is that of the account that the conditions are about. The next pass judges a
// configuration that has come while the regions were being read.
func (p *pass) generation() int64 {
	began, _ := accountspec.ConfigOf(p.began.cpa)
	now, _ := accountspec.ConfigOf(p.cpa)
	began.Owner = now.Owner // the status, not the configuration
	if !equality.Semantic.DeepEqual(began, now) {
		return p.began.cpa.Generation
	}
	return p.cpa.Generation
}

// readFor reports whether the regions were read for a selector as it is now.
func (p *pass) readFor(s *v1alpha1.CloudEntitySelector) bool {
	return strings.Contains(p.began.selection, identity(s))
}

func (p *pass) anyRead() bool { return len(p.account.snapshots()) > 0 }

func (p *pass) regionStatuses(d selection.Desired) []v1alpha1.RegionStatus {
	a := p.account
	a.mu.Lock()
	defer a.mu.Unlock()
	var out []v1alpha1.RegionStatus
	for name, r := range a.regions {
		st := v1alpha1.RegionStatus{Name: name, VMs: d.Regions[name].VMs, Vpcs: d.Regions[name].Vpcs}
		if r.snapshot != nil {
			at := metav1.NewTime(r.snapshot.ObservedAt).Rfc3339Copy()
			st.LastSyncTime = &at
		} else if old := oldRegion(p.cpa, name); old != nil {
			// From before a restart: it still tells how old the objects are.
			st.LastSyncTime, st.VMs, st.Vpcs = old.LastSyncTime, old.VMs, old.Vpcs
		}
		switch {
		case r.err != nil:
			st.LastError = r.err.Error()
		case !r.left.IsZero():
			st.LastError = "no longer a region of the account; waiting until nothing of ours is left in it"
		}
		out = append(out, st)
	}
	slices.SortFunc(out, func(x, y v1alpha1.RegionStatus) int { return strings.Compare(x.Name, y.Name) })
	return out
}

func oldRegion(cpa *v1alpha1.CloudProviderAccount, name string) *v1alpha1.RegionStatus {
	for i := range cpa.Status.Regions {
		if cpa.Status.Regions[i].Name == name {
			return &cpa.Status.Regions[i]
		}
	}
	return nil
}

// judge decides the conditions CredentialsValid and Reachable.
func (p *pass) judge() (credentials, reachable verdict) {
	if p.problem != nil {
		return no(p.problem.reason, p.problem.message), no(p.problem.reason, "the cloud is not called: "+p.problem.message)
	}
	a := p.account
	a.mu.Lock()
	defer a.mu.Unlock()
	credentials, reachable = ok("the cloud accepts the credentials"), ok("every region was read")
	var failing []string
	reason, answered, unread := "", 0, 0
	for _, name := range sortedNames(a.regions) {
		r := a.regions[name]
		switch {
		case r.err == nil && r.snapshot == nil:
			unread++
			continue
		case r.err == nil:
			answered++
			continue
		}
		why := reasonOf(r.err)
		if reason == "" || why == v1alpha1.ReasonAuthFailed {
			reason = why
		}
		known := "never read since the controller started"
		if r.snapshot != nil {
			known = "known as of " + r.snapshot.ObservedAt.UTC().Format(time.RFC3339)
		}
		failing = append(failing, fmt.Sprintf("%s: %v (%s)", name, r.err, known))
		if why == v1alpha1.ReasonAuthFailed || why == v1alpha1.ReasonNotGranted {
			credentials = no(why, fmt.Sprintf("region %s: %v", name, r.err))
		}
	}
	switch {
	case len(failing) > 0:
		reachable = no(reason, strings.Join(failing, "; "))
		if answered == 0 && credentials.status == metav1.ConditionTrue {
			credentials = pending("no region has answered")
		}
	case unread > 0:
		reachable = pending("not every region was read yet")
		if answered == 0 {
			credentials = pending("no region has answered")
		}
	}
	return credentials, reachable
}

func sortedNames(m map[string]*region) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// reasonOf is the reason for a failed observation.
func reasonOf(err error) string {
	var notGranted *cloud.NotGrantedError
	var bound *cloud.BoundError
	switch {
	case errors.As(err, &notGranted):
		return v1alpha1.ReasonNotGranted
	case errors.As(err, &bound):
		return v1alpha1.ReasonTooLarge
	case errors.Is(err, cloud.ErrRegionUnknown):
		return v1alpha1.ReasonUnknownRegion
	}
	switch cloud.ClassOf(err) {
	case cloud.Auth:
		return v1alpha1.ReasonAuthFailed
	case cloud.Throttled:
		return v1alpha1.ReasonThrottled
	default:
		return v1alpha1.ReasonUnreachable
	}
}

// set puts a verdict into conditions and reports whether status or reason changed.
func (i *Inventory) set(conditions *[]metav1.Condition, kind string, v verdict, generation int64) bool {
	old := meta.FindStatusCondition(*conditions, kind)
	changed := old == nil || old.Status != v.status || old.Reason != v.reason
	meta.SetStatusCondition(conditions, metav1.Condition{
		Type: kind, Status: v.status, Reason: v.reason, Message: v.message, ObservedGeneration: generation,
		LastTransitionTime: metav1.NewTime(i.opts.Now()),
	})
	return changed
}

// reportAccount writes the status of the account; verdicts are Ready, CredentialsValid, Reachable.
func (p *pass) reportAccount(ctx context.Context, regions []v1alpha1.RegionStatus, verdicts []verdict) error {
	live, base, generation := p.cpa.DeepCopy(), p.cpa, p.generation()
	st := &live.Status
	st.Regions, st.LastSyncTime, st.Error, st.ExternalID = regions, nil, "", p.externalID
	for n, r := range regions {
		if r.LastSyncTime == nil {
			st.LastSyncTime = nil
			break
		}
		if n == 0 || r.LastSyncTime.Before(st.LastSyncTime) {
			st.LastSyncTime = r.LastSyncTime
		}
	}
	if st.UserTags == "" {
		st.UserTags = accountspec.UserTagsAtFirst(st)
	}
	if st.DeletionPolicy == "" {
		st.DeletionPolicy = accountspec.DeletionAtFirst(st)
	}
	if snaps := p.account.snapshots(); st.CloudAccountID == "" && len(snaps) > 0 {
		st.CloudAccountID = snaps[0].OwnerID
	}
	ready := verdicts[0]
	if ready.status == metav1.ConditionFalse {
		st.Error = ready.message
	}
	news := p.loop.set(&st.Conditions, v1alpha1.ConditionReady, ready, generation)
	p.loop.set(&st.Conditions, v1alpha1.ConditionCredentialsValid, verdicts[1], generation)
	p.loop.set(&st.Conditions, v1alpha1.ConditionReachable, verdicts[2], generation)
	if v, has := p.judgeQueues(); has {
		p.loop.set(&st.Conditions, v1alpha1.ConditionEventsReceived, v, generation)
	} else {
		meta.RemoveStatusCondition(&st.Conditions, v1alpha1.ConditionEventsReceived)
	}
	servicesNews := false
	services, asked := p.judgeServices()
	if asked {
		servicesNews = p.loop.set(&st.Conditions, v1alpha1.ConditionServicesRead, services, generation) && services.status == metav1.ConditionFalse
	} else {
		meta.RemoveStatusCondition(&st.Conditions, v1alpha1.ConditionServicesRead)
	}
	unchecked := ""
	if p.loop.opts.AuthorsUnchecked != nil {
		unchecked = p.loop.opts.AuthorsUnchecked()
	}
	if unchecked != "" {
		p.loop.set(&st.Conditions, v1alpha1.ConditionAuthorsChecked, no(v1alpha1.ReasonPoliciesMissing, unchecked), generation)
	} else {
		meta.RemoveStatusCondition(&st.Conditions, v1alpha1.ConditionAuthorsChecked)
	}
	unprotected := p.setUnprotected(live)
	if equality.Semantic.DeepEqual(base.Status, live.Status) {
		return nil
	}
	if err := p.loop.opts.Client.Status().Patch(ctx, live, client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{})); err != nil {
		if client.IgnoreNotFound(err) == nil {
			return nil
		}
		return fmt.Errorf("write the status of account %s: %w", p.key(), err)
	}
	p.cpa = live
	if news {
		p.loop.tell(live, v1alpha1.ConditionReady, ready, "Observe", p.account.told)
	}
	if servicesNews {
		p.loop.tell(live, v1alpha1.ConditionServicesRead, services, "Observe", p.account.told)
	}
	if unprotected {
		p.loop.tell(live, v1alpha1.ConditionDeletionProtected, notProtected(), "Observe", p.account.told)
	}
	return nil
}

// subject is a condition of an object.
type subject struct {
	object    types.UID
	condition string
}

// tell records a state of a condition that has just been entered as an event. told remembers it,
// for when the cache still shows the state before; it may be nil.
func (i *Inventory) tell(about client.Object, condition string, v verdict, action string, told map[subject]string) {
	if told != nil {
		key, state := subject{about.GetUID(), condition}, string(v.status)+v.reason
		if told[key] == state {
			return
		}
		told[key] = state
	}
	kind := corev1.EventTypeNormal
	switch v.status {
	case metav1.ConditionFalse:
		kind = corev1.EventTypeWarning
	case metav1.ConditionUnknown:
		return
	}
	reason := v.reason
	if reason == v1alpha1.ReasonOK {
		reason = v1alpha1.ConditionReady
	}
	i.opts.Events.Eventf(about, nil, kind, reason, action, "%s", v.message)
}

// selectorFacts is what the verdict on a selector rests on.
type selectorFacts struct {
	// Selected is what this selector selects. all, allServices and allInterfaces count what the
	// account has; noServices says that the cloud has no native services that can be selected.
	selection.Selected
	all, allServices, allInterfaces int
	noServices                      bool
	// account is the verdict on the account, read whether any of its regions was ever read.
	account verdict
	read    bool
	taken   map[types.NamespacedName]string
}

// selectorVerdict is the status of a selector.
type selectorVerdict struct {
	ready, matched verdict
	// heeded has no status if all that the selector asks for is.
	heeded verdict
	count  *int32
	// services is what count is, of native services.
	services *int32
	// interfaces is what count is, of network interfaces.
	interfaces *int32
	// deletion is the policy of the account; empty if there is none.
	deletion v1alpha1.DeletionPolicy
	// orphaned: there is no account, so nothing decides any more what becomes of its VMs.
	orphaned bool
}

func (p *pass) judgeSelector(s *v1alpha1.CloudEntitySelector, f selectorFacts) selectorVerdict {
	account := cloud.AccountKey(p.cpa.Namespace, p.cpa.Name)
	v := selectorVerdict{matched: pending("account " + account + " was not read yet")}
	if f.read {
		v.count = &f.VMs
		v.matched = f.found(s, account)
		if len(s.Spec.NativeSelector) > 0 {
			v.services = &f.Services
		}
		if len(s.Spec.InterfaceSelector) > 0 {
			v.interfaces = &f.Interfaces
		}
	}
	invalid := selection.Check(s)
	if invalid == "" && f.noServices && len(s.Spec.NativeSelector) > 0 {
		invalid = fmt.Sprintf("spec.nativeSelector: native services of %s cannot be selected", p.cloud())
	}
	taken := f.takenIn(s.Namespace)
	switch {
	case invalid != "":
		v.ready = no(v1alpha1.ReasonSelectorInvalid, invalid)
	case f.account.status == metav1.ConditionFalse:
		v.ready = no(v1alpha1.ReasonAccountNotReady, "account "+account+": "+f.account.message)
	case taken != "":
		v.ready = no(reasonNameTaken, taken)
	case v.matched.status != metav1.ConditionTrue:
		v.ready = v.matched
	default:
		v.ready = ok(v.matched.message)
	}
	return v
}

// found says how much a selector selects of what it asks for.
func (f selectorFacts) found(s *v1alpha1.CloudEntitySelector, account string) verdict {
	var some, none []string
	if len(s.Spec.VMSelector) > 0 || len(s.Spec.NativeSelector)+len(s.Spec.InterfaceSelector) == 0 {
		some = append(some, fmt.Sprintf("%d of the %d virtual machines", f.VMs, f.all))
		none = append(none, fmt.Sprintf("none of the %d virtual machines", f.all))
	}
	if len(s.Spec.NativeSelector) > 0 {
		some = append(some, fmt.Sprintf("%d of the %d native services", f.Services, f.allServices))
		none = append(none, fmt.Sprintf("none of the %d native services", f.allServices))
	}
	if len(s.Spec.InterfaceSelector) > 0 {
		some = append(some, fmt.Sprintf("%d of the %d network interfaces", f.Interfaces, f.allInterfaces))
		none = append(none, fmt.Sprintf("none of the %d network interfaces", f.allInterfaces))
	}
	if f.VMs == 0 && f.Services == 0 && f.Interfaces == 0 {
		return no(v1alpha1.ReasonNoMatch, fmt.Sprintf("selects %s of account %s", strings.Join(none, " and "), account))
	}
	return ok(fmt.Sprintf("%s of account %s", strings.Join(some, " and "), account))
}

// takenIn returns what is to be said about the objects of a namespace that are not ours; "" if
// there are none.
func (f selectorFacts) takenIn(namespace string) string {
	var messages []string
	for key, message := range f.taken {
		if key.Namespace == namespace {
			messages = append(messages, message)
		}
	}
	slices.Sort(messages)
	if len(messages) > 3 {
		messages = append(messages[:3], fmt.Sprintf("and %d more", len(messages)-3))
	}
	return strings.Join(messages, "; ")
}

func (i *Inventory) reportSelector(
	ctx context.Context, s *v1alpha1.CloudEntitySelector, v selectorVerdict, told map[subject]string,
) error {
	live := s.DeepCopy()
	live.Status.MatchedInterfaces = v.interfaces
	live.Status.MatchedVMs, live.Status.MatchedServices, live.Status.Error, live.Status.DeletionPolicy = v.count, v.services, "", v.deletion
	if v.deletion == "" {
		live.Status.GuardedVMs = nil // nobody counts any more
	}
	if v.ready.status == metav1.ConditionFalse {
		live.Status.Error = v.ready.message
	}
	news := i.set(&live.Status.Conditions, v1alpha1.ConditionReady, v.ready, live.Generation)
	i.set(&live.Status.Conditions, v1alpha1.ConditionMatched, v.matched, live.Generation)
	ignored := i.setHeeded(&live.Status.Conditions, v.heeded.condition(), live.Generation)
	if v.orphaned {
		meta.RemoveStatusCondition(&live.Status.Conditions, v1alpha1.ConditionPlanned)
		meta.RemoveStatusCondition(&live.Status.Conditions, v1alpha1.ConditionBreakGlass)
	}
	if equality.Semantic.DeepEqual(s.Status, live.Status) {
		return nil
	}
	patch := client.MergeFromWithOptions(s, client.MergeFromWithOptimisticLock{}) // others write conditions, too
	if err := i.opts.Client.Status().Patch(ctx, live, patch); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("write the status of selector %s: %w", client.ObjectKeyFromObject(s), err)
	}
	if news {
		i.tell(live, v1alpha1.ConditionReady, v.ready, "Select", told)
	}
	switch {
	case v.heeded.status == "":
		delete(told, subject{s.UID, v1alpha1.ConditionHeeded})
	case ignored:
		i.tell(live, v1alpha1.ConditionHeeded, v.heeded, "Select", told)
	}
	return nil
}

// condition is the condition Heeded of a verdict; nil if there is nothing to say.
func (v verdict) condition() *metav1.Condition {
	if v.status == "" {
		return nil
	}
	return &metav1.Condition{Type: v1alpha1.ConditionHeeded, Status: v.status, Reason: v.reason, Message: v.message}
}

// setHeeded sets the condition Heeded, or removes it if there is nothing to say, and reports
// whether something else is not heeded now.
func (i *Inventory) setHeeded(conditions *[]metav1.Condition, c *metav1.Condition, generation int64) (news bool) {
	if c == nil {
		meta.RemoveStatusCondition(conditions, v1alpha1.ConditionHeeded)
		return false
	}
	return i.set(conditions, v1alpha1.ConditionHeeded, verdict{c.Status, c.Reason, c.Message}, generation)
}

// reportAccountMissing says on a selector that its account does not exist, and takes back what was
// said of VMs that it has no more.
func (i *Inventory) reportAccountMissing(ctx context.Context, s *v1alpha1.CloudEntitySelector, account types.NamespacedName) error {
	missing := no(v1alpha1.ReasonAccountNotFound, fmt.Sprintf("there is no CloudProviderAccount %s", account))
	return i.reportSelector(ctx, s, selectorVerdict{ready: missing, matched: missing, orphaned: true}, nil)
}

// judgeQueues decides the condition EventsReceived; false if the account has no queues.
func (p *pass) judgeQueues() (verdict, bool) {
	a := p.account
	a.mu.Lock()
	defer a.mu.Unlock()
	f := &a.feed
	if len(f.wanted) == 0 || p.problem != nil {
		return verdict{}, false
	}
	var failing []string
	reason, unread := "", 0
	for _, q := range f.wanted {
		err, known := f.queues[q.URL]
		switch {
		case !known:
			unread++
		case err != nil:
			reason = queueReason(err)
			failing = append(failing, fmt.Sprintf("%s: %v", q.URL, err))
		}
	}
	switch {
	case len(failing) > 0:
		return no(reason, fmt.Sprintf("changes are found by polling every %s: %s", p.interval(), strings.Join(failing, "; "))), true
	case unread > 0:
		return pending("not every event queue was read yet; changes are found by polling every " + p.interval().String()), true
	}
	return ok(fmt.Sprintf("%d event queues are read", len(f.wanted))), true
}

// queueReason is the reason for a queue that cannot be read.
func queueReason(err error) string {
	if cloud.ClassOf(err) == cloud.NotFound {
		return v1alpha1.ReasonQueueNotFound
	}
	return reasonOf(err)
}
