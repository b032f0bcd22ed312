package inventory

import (
	"context"
	"maps"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	antreav1alpha1 "github.com/nephele-io/nephele/api/antrea/v1alpha1"
	antreav1alpha2 "github.com/nephele-io/nephele/api/antrea/v1alpha2"
	"github.com/nephele-io/nephele/api/cloud/v1alpha1"
)

// deepCopier is an object that copies itself.
type deepCopier[T any] interface {
	client.Object
	DeepCopy() T
}

// fill makes have what want says in labels and annotations, and reports whether that changes it.
func fill(have, want client.Object) bool {
	labels, changed := mergeLabels(have.GetLabels(), want.GetLabels())
	have.SetLabels(labels)
	annotations := maps.Clone(have.GetAnnotations())
	if annotations == nil {
		annotations = map[string]string{}
	}
	maps.Copy(annotations, want.GetAnnotations())
	changed = changed || !maps.Equal(annotations, have.GetAnnotations())
	have.SetAnnotations(annotations)
	return changed
}

// put creates the object or brings the existing one in line. spec changes the specification of the existing object to what is wanted
// and reports whether it differed; status does the same with the status, and may be nil. It never changes have.
func put[T deepCopier[T]](ctx context.Context, s *syncer, want T, have T, exists bool, spec, status func(have T) bool) error {
	live := want.DeepCopy()
	if !exists {
		created, err := s.create(ctx, live)
		if !created || err != nil {
			return err
		}
	} else {
		live = have.DeepCopy()
		changed := fill(live, want)
		if spec != nil {
			changed = spec(live) || changed
		}
		if changed {
			if err := s.patch(ctx, live, have, false); err != nil {
				return err
			}
		}
	}
	if status == nil {
		return nil
	}
	base := live.DeepCopy()
	if !status(live) {
		return nil
	}
	return s.patch(ctx, live, base, true)
}

func (s *syncer) putEntity(ctx context.Context, want, have *antreav1alpha2.ExternalEntity) error {
	return put(ctx, s, want, have, have != nil, func(live *antreav1alpha2.ExternalEntity) bool {
		ports := live.Spec.Ports // the cloud knows no ports; whoever named some keeps them
		before := live.Spec
		live.Spec = *want.Spec.DeepCopy()
		live.Spec.Ports = ports
		return !equality.Semantic.DeepEqual(before, live.Spec)
	}, nil)
}

func (s *syncer) putNode(ctx context.Context, want, have *antreav1alpha1.ExternalNode) error {
	return put(ctx, s, want, have, have != nil, func(live *antreav1alpha1.ExternalNode) bool {
		before := live.Spec
		live.Spec = *want.Spec.DeepCopy()
		return !equality.Semantic.DeepEqual(before, live.Spec)
	}, nil)
}

func (s *syncer) putVM(ctx context.Context, want, have *v1alpha1.VirtualMachine) error {
	return put(ctx, s, want, have, have != nil, nil, func(live *v1alpha1.VirtualMachine) bool {
		before := live.Status
		// What policies do to the VM is not ours to write.
		live.Status = *want.Status.DeepCopy()
		live.Status.Policies, live.Status.PolicySummary = before.Policies, before.PolicySummary
		live.Status.Conditions = append([]metav1.Condition(nil), before.Conditions...)
		live.Status.LastSeen = before.LastSeen
		s.setObserved(&live.Status.Conditions, want.Status.Region, live.Generation)
		if equality.Semantic.DeepEqual(before, live.Status) {
			return false
		}
		live.Status.LastSeen = want.Status.LastSeen
		return true
	})
}

func (s *syncer) putVpc(ctx context.Context, want, have *v1alpha1.Vpc) error {
	return put(ctx, s, want, have, have != nil, nil, func(live *v1alpha1.Vpc) bool {
		before := live.Status
		live.Status = *want.Status.DeepCopy()
		live.Status.Conditions = append([]metav1.Condition(nil), before.Conditions...)
		s.setObserved(&live.Status.Conditions, want.Status.Region, live.Generation)
		return !equality.Semantic.DeepEqual(before, live.Status)
	})
}

// setObserved sets the condition Observed of an object of a region.
func (s *syncer) setObserved(conditions *[]metav1.Condition, region string, generation int64) bool {
	c := metav1.Condition{
		Type: v1alpha1.ConditionObserved, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonOK,
		Message: "as the cloud shows it", ObservedGeneration: generation, LastTransitionTime: metav1.NewTime(s.opts.Now()),
	}
	if message := s.stale[region]; message != "" {
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, v1alpha1.ReasonStale, message
	}
	return meta.SetStatusCondition(conditions, c)
}

// markVMStale says on an object that is kept that nobody has seen the VM since.
func (s *syncer) markVMStale(ctx context.Context, have *v1alpha1.VirtualMachine) error {
	live := have.DeepCopy()
	if s.stale[live.Status.Region] == "" || !s.setObserved(&live.Status.Conditions, live.Status.Region, live.Generation) {
		return nil
	}
	return s.patch(ctx, live, have, true)
}

func (s *syncer) markVpcStale(ctx context.Context, have *v1alpha1.Vpc) error {
	live := have.DeepCopy()
	if s.stale[live.Status.Region] == "" || !s.setObserved(&live.Status.Conditions, live.Status.Region, live.Generation) {
		return nil
	}
	return s.patch(ctx, live, have, true)
}
