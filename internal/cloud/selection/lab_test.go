package selection

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nephele-io/nephele/api/cloud/v1alpha1"
)

const (
	oregon      = "us-west-2"
	balancerARN = "arn:aws:elasticloadbalancing:us-west-2:123456789012:loadbalancer/app/front/50dc6c495c0c9188"
)

var accountKey = types.NamespacedName{Namespace: "clouds", Name: "acc"}

func ces(namespace, name string, entries ...v1alpha1.VirtualMachineSelector) *v1alpha1.CloudEntitySelector {
	return &v1alpha1.CloudEntitySelector{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(namespace + name), Generation: 1},
		Spec: v1alpha1.CloudEntitySelectorSpec{
			AccountName: accountKey.Name, AccountNamespace: accountKey.Namespace, VMSelector: entries,
		},
	}
}

func wholeVPC(id string) v1alpha1.VirtualMachineSelector {
	return v1alpha1.VirtualMachineSelector{VpcMatch: &v1alpha1.EntityMatch{MatchID: id}}
}

func namespaceObject(name string, labels map[string]string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
}

func byIDs(ids ...string) v1alpha1.VirtualMachineSelector {
	e := v1alpha1.VirtualMachineSelector{}
	for _, i := range ids {
		e.VMMatch = append(e.VMMatch, v1alpha1.EntityMatch{MatchID: i})
	}
	return e
}

// condition is status and reason of a condition; empty if there is none.
func condition(conditions []metav1.Condition, kind string) string {
	c := meta.FindStatusCondition(conditions, kind)
	if c == nil {
		return ""
	}
	return string(c.Status) + " " + c.Reason
}
