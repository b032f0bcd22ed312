package status

import (
	"iter"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud/plan"
)

// subject is the object that policies apply to, of any of the three kinds, with the part of its
// status that Writer owns.
type subject struct {
	client.Object
	// word is what people call it in a sentence.
	word       string
	entity     string
	policies   *[]cloudv1.AppliedPolicy
	summary    *string
	conditions *[]metav1.Condition
}

// subjectOf returns the subject that an object is; false if it is none.
func subjectOf(obj client.Object) (subject, bool) {
	switch o := obj.(type) {
	case *cloudv1.VirtualMachine:
		return subject{o, "VM", cloudv1.EntityNamePrefix, &o.Status.Policies, &o.Status.PolicySummary, &o.Status.Conditions}, true
	case *cloudv1.CloudNativeService:
		return subject{o, "service", cloudv1.ServiceEntityNamePrefix, &o.Status.Policies, &o.Status.PolicySummary, &o.Status.Conditions}, true
	case *cloudv1.NetworkInterface:
		return subject{o, "interface", cloudv1.InterfaceEntityNamePrefix, &o.Status.Policies, &o.Status.PolicySummary, &o.Status.Conditions}, true
	}
	return subject{}, false
}

// subjectBehind returns an empty object of the kind that an entity represents, with its name.
func subjectBehind(ref plan.EntityRef) subject {
	for _, obj := range []client.Object{&cloudv1.CloudNativeService{}, &cloudv1.NetworkInterface{}} {
		on, _ := subjectOf(obj)
		if name, is := strings.CutPrefix(ref.Name, on.entity); is {
			on.SetNamespace(ref.Namespace)
			on.SetName(name)
			return on
		}
	}
	on, _ := subjectOf(&cloudv1.VirtualMachine{})
	on.SetNamespace(ref.Namespace)
	on.SetName(strings.TrimPrefix(ref.Name, on.entity))
	return on
}

// ref names the entity that represents the subject.
func (on subject) ref() plan.EntityRef {
	return plan.EntityRef{Namespace: on.GetNamespace(), Name: on.entity + on.GetName()}
}

// kind is the name of the subject's kind.
func (on subject) kind() string {
	switch on.Object.(type) {
	case *cloudv1.CloudNativeService:
		return "CloudNativeService"
	case *cloudv1.NetworkInterface:
		return "NetworkInterface"
	}
	return "VirtualMachine"
}

// subjects are all that policies of the account may apply to, by their entities.
func (r Report) subjects() iter.Seq2[plan.EntityRef, plan.VMRef] {
	return func(yield func(plan.EntityRef, plan.VMRef) bool) {
		for _, of := range []map[plan.EntityRef]plan.VMRef{r.Entities, r.Services} {
			for ref, vm := range of {
				if !yield(ref, vm) {
					return
				}
			}
		}
	}
}

// unguardedOf are the policies on services and interfaces whose groups cannot be set: the plan has
// no status of these.
func unguardedOf(res *plan.Result) map[plan.EntityRef][]plan.VMPolicy {
	out := map[plan.EntityRef][]plan.VMPolicy{}
	for i := range res.Policies {
		p := &res.Policies[i]
		for _, u := range p.Unguarded {
			out[u.Entity] = append(out[u.Entity], plan.VMPolicy{PolicyRef: p.PolicyRef, Why: u.Why, Message: u.Message})
		}
	}
	return out
}
