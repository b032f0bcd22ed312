package explain

import (
	"cmp"
	"strings"

	cloudv1alpha1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/policy"
)

// objectKind is what an ExternalEntity stands for, by the word for it in names.
type objectKind string

// What ExternalEntities stand for. Those that somebody has made himself count as VMs.
const (
	objectVM        objectKind = "vm"
	objectService   objectKind = "cns"
	objectInterface objectKind = "nic"
	// objectHost is a host with an agent, by the name of its ExternalNode.
	objectHost objectKind = "host"
)

// standsFor says what an ExternalEntity stands for.
func standsFor(ref policy.EntityRef) objectKind {
	for _, k := range []objectKind{objectService, objectInterface} {
		if strings.HasPrefix(ref.Name, k.prefix()) {
			return k
		}
	}
	return objectVM
}

// prefix is what the names of entities of that kind begin with.
func (k objectKind) prefix() string {
	switch k {
	case objectService:
		return cloudv1alpha1.ServiceEntityNamePrefix
	case objectInterface:
		return cloudv1alpha1.InterfaceEntityNamePrefix
	}
	return cloudv1alpha1.EntityNamePrefix
}

// objectName is the name of the object that the entity stands for, in lower case.
func (k objectKind) objectName(ref policy.EntityRef) string {
	return strings.TrimPrefix(ref.Name, k.prefix())
}

// cloudName is what the cloud calls it, in lower case; empty if the labels do not tell.
func (k objectKind) cloudName(labels map[string]string) string {
	switch k {
	case objectService:
		return labels[cloudv1alpha1.LabelCloudServiceName]
	case objectInterface:
		return cmp.Or(labels[cloudv1alpha1.LabelCloudInterfaceName], labels[cloudv1alpha1.LabelCloudInterfaceUID])
	}
	return labels[cloudv1alpha1.LabelCloudVMName]
}

// isCalled reports whether the cloud knows it by a name or id, as far as the labels tell.
func (k objectKind) isCalled(labels map[string]string, name string) bool {
	id := cloudv1alpha1.LabelCloudVMUID
	if k == objectInterface {
		id = cloudv1alpha1.LabelCloudInterfaceUID
	}
	return labels[id] == name || strings.EqualFold(k.cloudName(labels), name)
}

// title is what people call a native service or an interface.
func (k objectKind) title(e policy.Entity) string {
	kind := "NetworkInterface"
	if k == objectService {
		kind = cmp.Or(e.Labels[cloudv1alpha1.LabelCloudServiceKind], "CloudNativeService")
	}
	return kind + " " + e.Namespace + "/" + cmp.Or(k.cloudName(e.Labels), k.objectName(e.EntityRef))
}
