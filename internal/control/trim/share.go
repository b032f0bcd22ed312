package trim

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nephele-io/nephele/api/antrea/v1alpha2"
	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
)

// This file makes the objects that represent virtual machines share their texts. Each is decoded
// into a hundred texts of its own, nearly all of which the others have too: keys of labels, names
// of networks and groups, conditions. The garbage collector visits every one of them.

// shareVM makes a VirtualMachine use texts that others use.
func (t *Trimmer) shareVM(vm *cloudv1.VirtualMachine) {
	t.shareMeta(&vm.ObjectMeta)
	vm.Spec.Tags = t.sharing(vm.Spec.Tags)
	s := &vm.Status
	s.Tags = t.sharing(s.Tags)
	share(t, (*string)(&s.Provider), &s.Region, (*string)(&s.State), &s.CloudVpcId, &s.CloudVpcName, &s.CloudId, &s.CloudName, &s.Addresses,
		&s.Mode, &s.ModeReason, &s.PolicySummary)
	for i := range s.NetworkInterfaces {
		n := &s.NetworkInterfaces[i]
		for _, ids := range [][]string{n.SecurityGroupIds, n.FormerSecurityGroupIds, n.Groups} {
			for j := range ids {
				share(t, &ids[j])
			}
		}
		for j := range n.IPs {
			share(t, (*string)(&n.IPs[j].AddressType), &n.IPs[j].Address)
		}
	}
	for i := range s.Conditions {
		c := &s.Conditions[i]
		share(t, &c.Type, (*string)(&c.Status), &c.Reason, &c.Message)
	}
	for i := range s.Policies {
		p := &s.Policies[i]
		share(t, &p.Name, &p.Namespace, &p.Kind, (*string)(&p.UID), (*string)(&p.Phase), &p.Message)
	}
}

// shareEntity makes an ExternalEntity use texts that others use.
func (t *Trimmer) shareEntity(e *v1alpha2.ExternalEntity) {
	t.shareMeta(&e.ObjectMeta)
	share(t, &e.Spec.ExternalNode)
	for i := range e.Spec.Endpoints {
		share(t, &e.Spec.Endpoints[i].IP, &e.Spec.Endpoints[i].Name)
	}
}

func (t *Trimmer) shareMeta(m *metav1.ObjectMeta) {
	m.Labels, m.Annotations = t.sharing(m.Labels), t.shared(m.Annotations)
	share(t, &m.Namespace)
}

// sharing returns a map with the same content whose texts others use. No other map has all of it:
// among it are the names of one virtual machine.
func (t *Trimmer) sharing(m map[string]string) map[string]string {
	if len(m) == 0 {
		return m
	}
	out := make(map[string]string, len(m))
	for k, v := range m {
		out[t.text(k)] = t.text(v)
	}
	return out
}

// share replaces texts by the one copy of each that there is to be.
func share(t *Trimmer, texts ...*string) {
	for _, s := range texts {
		if *s != "" {
			*s = t.text(*s)
		}
	}
}
