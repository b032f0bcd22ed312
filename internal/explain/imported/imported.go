// Package imported says what an ExternalEntity represents: a virtual machine, a native service, a
// network interface or a host, and what the cloud calls it.
//
// It reads names and labels alone, and everything in it is pure.
package imported

import (
	"cmp"
	"strings"

	cloudv1alpha1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/policy"
)

// Kind is what an ExternalEntity represents, by the word for it in names.
type Kind string

// What ExternalEntities represent. One that a user has written counts as a VM.
const (
	VM        Kind = "vm"
	Service   Kind = "cns"
	Interface Kind = "nic"
	// Host is a host with an agent, by the name of its ExternalNode.
	Host Kind = "host"
)

// KindOf returns what an ExternalEntity represents.
func KindOf(ref policy.EntityRef) Kind {
	for _, k := range []Kind{Service, Interface} {
		if strings.HasPrefix(ref.Name, k.Prefix()) {
			return k
		}
	}
	return VM
}

// Prefix is what the names of entities of that kind begin with.
func (k Kind) Prefix() string {
	switch k {
	case Service:
		return cloudv1alpha1.ServiceEntityNamePrefix
	case Interface:
		return cloudv1alpha1.InterfaceEntityNamePrefix
	}
	return cloudv1alpha1.EntityNamePrefix
}

// ObjectName is the name of the object that the entity represents, in lower case.
func (k Kind) ObjectName(ref policy.EntityRef) string {
	return strings.TrimPrefix(ref.Name, k.Prefix())
}

// CloudName is what the cloud calls it, in lower case; empty if the labels do not say.
func (k Kind) CloudName(labels map[string]string) string {
	switch k {
	case Service:
		return labels[cloudv1alpha1.LabelCloudServiceName]
	case Interface:
		return cmp.Or(labels[cloudv1alpha1.LabelCloudInterfaceName], labels[cloudv1alpha1.LabelCloudInterfaceUID])
	}
	return labels[cloudv1alpha1.LabelCloudVMName]
}

// IsCalled reports whether the cloud knows it by a name or id, as far as the labels say.
func (k Kind) IsCalled(labels map[string]string, name string) bool {
	id := cloudv1alpha1.LabelCloudVMUID
	if k == Interface {
		id = cloudv1alpha1.LabelCloudInterfaceUID
	}
	return labels[id] == name || strings.EqualFold(k.CloudName(labels), name)
}

// Title is what people call a native service or an interface.
func (k Kind) Title(e policy.Entity) string {
	kind := "NetworkInterface"
	if k == Service {
		kind = cmp.Or(e.Labels[cloudv1alpha1.LabelCloudServiceKind], "CloudNativeService")
	}
	return kind + " " + e.Namespace + "/" + cmp.Or(k.CloudName(e.Labels), k.ObjectName(e.EntityRef))
}
