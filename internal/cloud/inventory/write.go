package inventory

import (
	"context"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	antreav1alpha1 "github.com/nephele-io/nephele/api/antrea/v1alpha1"
	antreav1alpha2 "github.com/nephele-io/nephele/api/antrea/v1alpha2"
	antreav1beta1 "github.com/nephele-io/nephele/api/antrea/v1beta1"
	"github.com/nephele-io/nephele/api/cloud/v1alpha1"
	corev1 "k8s.io/api/core/v1"
)

// copied is a pointer to an object that copies itself.
type copied[O any] interface {
	*O
	client.Object
	DeepCopy() *O
}

// fill makes have what want says in labels and annotations, and reports whether that changes it. It
// gives have maps of its own if so.
func fill(have, want client.Object) bool {
	labels, changed := mergeLabels(have.GetLabels(), want.GetLabels())
	have.SetLabels(labels)
	present := have.GetAnnotations()
	for k, v := range want.GetAnnotations() {
		if is, there := present[k]; there && is == v {
			continue
		}
		annotations := maps.Clone(present)
		if annotations == nil {
			annotations = map[string]string{}
		}
		maps.Copy(annotations, want.GetAnnotations())
		have.SetAnnotations(annotations)
		return true
	}
	return changed
}

// put creates the object if have is nil, or brings the existing one in line. spec changes the
// specification of the existing object to what is wanted and reports whether it differed; status
// does the same with the status, and may be nil. They replace what they change and write to nothing
// that they find: of an object that is as it should be, no more is copied than its uppermost part.
// It never changes have.
func put[O any, T copied[O]](ctx context.Context, s *syncer, want, have T, spec, status func(live T) bool) error {
	var live T
	if have == nil {
		live = want.DeepCopy()
		created, err := s.create(ctx, live)
		if !created || err != nil {
			return err
		}
	} else {
		top := *have
		live = &top
		changed := fill(live, want)
		if spec != nil {
			changed = spec(live) || changed
		}
		if changed {
			live = live.DeepCopy() // what the API server answers is read into it
			if err := s.patch(ctx, live, have, false); err != nil {
				return err
			}
		}
	}
	if status == nil || !status(live) {
		return nil
	}
	return s.patch(ctx, T(live.DeepCopy()), live, true)
}

func (s *syncer) putEntity(ctx context.Context, want, have *antreav1alpha2.ExternalEntity) error {
	if have != nil {
		s.tellApart(want, have)
	}
	return put(ctx, s, want, have, func(live *antreav1alpha2.ExternalEntity) bool {
		ports := live.Spec.Ports
		before := live.Spec
		live.Spec = want.Spec
		if len(live.Spec.Ports) == 0 { // the cloud has no named ports; a user's stay
			live.Spec.Ports = ports
		}
		return !equality.Semantic.DeepEqual(before, live.Spec)
	}, nil)
}

// tellApart records an event if tags that a user gave to a VM were among the tags of the cloud and
// are so no longer, as when a former version has merged them: policies that select by them lose the
// VM.
func (s *syncer) tellApart(want, have *antreav1alpha2.ExternalEntity) {
	var keys []string
	for label, value := range want.Labels {
		key, users := strings.CutPrefix(label, v1alpha1.LabelUserTagPrefix)
		if former := v1alpha1.LabelTagPrefix + key; users && have.Labels[former] == value && have.Labels[label] == "" && want.Labels[former] != value {
			keys = append(keys, key)
		}
	}
	vm := s.vms[types.NamespacedName{Namespace: want.Namespace, Name: strings.TrimPrefix(want.Name, v1alpha1.EntityNamePrefix)}]
	if len(keys) == 0 || vm == nil {
		return
	}
	slices.Sort(keys)
	s.loop.opts.Events.Eventf(vm, nil, corev1.EventTypeWarning, "UserTagsApart", "Import", "tags in spec.tags are labels %sKEY now and not %sKEY (spec.userTags of the account: "+
		"Merge brings the latter back), so policies that select by these tags do not select the VM any more: %s", v1alpha1.LabelUserTagPrefix, v1alpha1.LabelTagPrefix, strings.Join(keys, ", "))
}

func (s *syncer) putNode(ctx context.Context, want, have *antreav1alpha1.ExternalNode) error {
	return put(ctx, s, want, have, func(live *antreav1alpha1.ExternalNode) bool {
		before := live.Spec
		live.Spec = want.Spec
		return !equality.Semantic.DeepEqual(before, live.Spec)
	}, nil)
}

func (s *syncer) putVM(ctx context.Context, want, have *v1alpha1.VirtualMachine) error {
	news := false
	err := put(ctx, s, want, have, nil, func(live *v1alpha1.VirtualMachine) bool {
		before := live.Status
		// What policies do to the VM is not ours to write.
		live.Status = want.Status
		leaveGroups(&live.Status, &before)
		live.Status.Policies, live.Status.PolicySummary, live.Status.Agent = before.Policies, before.PolicySummary, before.Agent
		live.Status.Conditions = append([]metav1.Condition(nil), before.Conditions...)
		live.Status.LastSeen = before.LastSeen
		s.setObserved(&live.Status.Conditions, want.Status.Region, live.Generation)
		news = s.loop.setHeeded(&live.Status.Conditions, meta.FindStatusCondition(want.Status.Conditions, v1alpha1.ConditionHeeded), live.Generation)
		if equality.Semantic.DeepEqual(before, live.Status) {
			return false
		}
		if before.LastSeen.Before(want.Status.LastSeen) {
			live.Status.LastSeen = want.Status.LastSeen
		}
		return true
	})
	s.tellUnheard(want, want.Status.Conditions, news && err == nil)
	return err
}

// tellUnheard records an event if it is news that break-glass on an object is not heeded.
func (s *syncer) tellUnheard(o client.Object, conditions []metav1.Condition, news bool) {
	if c := meta.FindStatusCondition(conditions, v1alpha1.ConditionHeeded); c != nil && news {
		s.loop.opts.Events.Eventf(o, nil, corev1.EventTypeWarning, c.Reason, "Import", "%s", c.Message)
	}
}

// leaveGroups keeps the groups of a VM's interfaces as they are shown if the object has the
// condition Realized: package realize/status sets it, and writes the groups from then on.
func leaveGroups(status, shown *v1alpha1.VirtualMachineStatus) {
	if meta.FindStatusCondition(shown.Conditions, v1alpha1.ConditionRealized) == nil {
		return
	}
	status.NetworkInterfaces = slices.Clone(status.NetworkInterfaces)
	for i := range status.NetworkInterfaces {
		is := &status.NetworkInterfaces[i]
		if at := slices.IndexFunc(shown.NetworkInterfaces, func(n v1alpha1.AttachedInterface) bool { return n.Name == is.Name }); at >= 0 {
			is.SecurityGroupIds, is.FormerSecurityGroupIds = shown.NetworkInterfaces[at].SecurityGroupIds, shown.NetworkInterfaces[at].FormerSecurityGroupIds
		}
	}
}

func (s *syncer) putVpc(ctx context.Context, want, have *v1alpha1.Vpc) error {
	return put(ctx, s, want, have, nil, func(live *v1alpha1.Vpc) bool {
		before := live.Status
		live.Status = want.Status
		live.Status.Conditions = append([]metav1.Condition(nil), before.Conditions...)
		s.setObserved(&live.Status.Conditions, want.Status.Region, live.Generation)
		return !equality.Semantic.DeepEqual(before, live.Status)
	})
}

// keepOutcome leaves in the status of a service or an interface what policies do to it, which is
// not ours to write.
func keepOutcome(live, before *v1alpha1.ImportedStatus) {
	live.Policies, live.PolicySummary = before.Policies, before.PolicySummary
	live.Conditions = append([]metav1.Condition(nil), before.Conditions...)
}

func (s *syncer) putNative(ctx context.Context, want, have *v1alpha1.CloudNativeService) error {
	news := false
	err := put(ctx, s, want, have, nil, func(live *v1alpha1.CloudNativeService) bool {
		before := live.Status
		live.Status = want.Status
		keepOutcome(&live.Status.ImportedStatus, &before.ImportedStatus)
		if c := meta.FindStatusCondition(want.Status.Conditions, v1alpha1.ConditionAddressed); c != nil {
			s.loop.set(&live.Status.Conditions, c.Type, verdict{c.Status, c.Reason, c.Message}, live.Generation)
		}
		s.setObserved(&live.Status.Conditions, want.Status.Region, live.Generation)
		news = s.loop.setHeeded(&live.Status.Conditions, meta.FindStatusCondition(want.Status.Conditions, v1alpha1.ConditionHeeded), live.Generation)
		return !equality.Semantic.DeepEqual(before, live.Status)
	})
	s.tellUnheard(want, want.Status.Conditions, news && err == nil)
	return err
}

func (s *syncer) markNativeStale(ctx context.Context, have *v1alpha1.CloudNativeService) error {
	live := have.DeepCopy()
	return s.markStale(ctx, live, have, live.Status.Region, &live.Status.Conditions)
}

// setObserved sets the condition Observed of an object of a region.
func (s *syncer) setObserved(conditions *[]metav1.Condition, region string, generation int64) bool {
	c := metav1.Condition{
		Type: v1alpha1.ConditionObserved, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonOK,
		Message: "as the cloud shows it", ObservedGeneration: generation, LastTransitionTime: metav1.NewTime(s.loop.opts.Now()),
	}
	if message := s.stale[region]; message != "" {
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, v1alpha1.ReasonStale, message
	}
	return meta.SetStatusCondition(conditions, c)
}

// markStale says on an object of a region that is kept that it was not seen since, if the region is
// not read.
func (s *syncer) markStale(ctx context.Context, live, have client.Object, region string, conditions *[]metav1.Condition) error {
	if s.stale[region] == "" || !s.setObserved(conditions, region, live.GetGeneration()) {
		return nil
	}
	return s.patch(ctx, live, have, true)
}

// markVMStale says on an object that is kept that nobody has seen the VM since.
func (s *syncer) markVMStale(ctx context.Context, have *v1alpha1.VirtualMachine) error {
	live := have.DeepCopy()
	return s.markStale(ctx, live, have, live.Status.Region, &live.Status.Conditions)
}

func (s *syncer) markVpcStale(ctx context.Context, have *v1alpha1.Vpc) error {
	live := have.DeepCopy()
	return s.markStale(ctx, live, have, live.Status.Region, &live.Status.Conditions)
}

func (s *syncer) putInterface(ctx context.Context, want, have *v1alpha1.NetworkInterface) error {
	news := false
	err := put(ctx, s, want, have, nil, func(live *v1alpha1.NetworkInterface) bool {
		before := live.Status
		live.Status = want.Status
		keepOutcome(&live.Status.ImportedStatus, &before.ImportedStatus)
		s.setObserved(&live.Status.Conditions, want.Status.Region, live.Generation)
		news = s.loop.setHeeded(&live.Status.Conditions, meta.FindStatusCondition(want.Status.Conditions, v1alpha1.ConditionHeeded), live.Generation)
		return !equality.Semantic.DeepEqual(before, live.Status)
	})
	s.tellUnheard(want, want.Status.Conditions, news && err == nil)
	return err
}

func (s *syncer) markInterfaceStale(ctx context.Context, have *v1alpha1.NetworkInterface) error {
	live := have.DeepCopy()
	return s.markStale(ctx, live, have, live.Status.Region, &live.Status.Conditions)
}

func (s *syncer) putGroup(ctx context.Context, want, have *antreav1beta1.Group) error {
	return put(ctx, s, want, have, func(live *antreav1beta1.Group) bool {
		before := live.Spec
		live.Spec = want.Spec
		return !equality.Semantic.DeepEqual(before, live.Spec)
	}, nil)
}
