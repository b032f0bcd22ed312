package selection

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
)

// Clash is a name of an object that several VMs of an account would have. Where ids are paths
// (Azure), the name has only their sum, so a user that may create VMs can choose one. The VM that
// has the object keeps it. The others are not imported, and the status says so.
type Clash struct {
	// has is the id of the VM that has the object; others are the ids of the VMs that do not,
	// sorted.
	has    string
	others []string
}

// mostOthers bounds the VMs that a message names.
const mostOthers = 3

// Message says it for people; key is the object.
func (c Clash) Message(key types.NamespacedName) string {
	named := strings.Join(c.others[:min(len(c.others), mostOthers)], ", ")
	if more := len(c.others) - mostOthers; more > 0 {
		named += fmt.Sprintf(" and %d more", more)
	}
	return fmt.Sprintf(
		"VirtualMachine %s stands for %s. It would stand for %s, too, which is not imported: no policy is enforced there. A virtual machine with another name has an object of its own",
		key,
		c.has,
		named,
	)
}

// holderOf is the id of the VM that an object represents already; empty if there is none.
func (v View) holderOf(key types.NamespacedName) string {
	if vm := v.VMs[key]; vm != nil && vm.Annotations[AnnotationAccount] == cloud.AccountKey(v.Account.Namespace, v.Account.Name) {
		return vm.Status.CloudId
	}
	return ""
}

// meansVM reports whether an object that exists is about the VM: it may be that of another one with
// the same name.
func (v View) meansVM(key types.NamespacedName, id string) bool {
	holder := v.holderOf(key)
	return holder == "" || holder == id
}

// prevails decides which of two VMs has the object that is there for one of them, and reports
// whether it is the one with this id. The object is removed then.
func (d *Desired) prevails(v View, key types.NamespacedName, id string) bool {
	first := d.VMs[key].Status.CloudId
	switch {
	case first == id: // the same one, shown twice
		return false
	case v.holderOf(key) != id:
		d.lose(key, first, id)
		return false
	}
	d.drop(key)
	d.lose(key, id, first)
	return true
}

// lose notes that a VM does not have the object that another one has.
func (d *Desired) lose(key types.NamespacedName, has, other string) {
	c := d.Clashes[key]
	c.has = has
	if at, found := slices.BinarySearch(c.others, other); !found {
		c.others = slices.Insert(c.others, at, other)
	}
	d.Clashes[key] = c
}

// drop removes the objects of a VM.
func (d *Desired) drop(key types.NamespacedName) {
	entity := types.NamespacedName{Namespace: key.Namespace, Name: v1alpha1.EntityNamePrefix + key.Name}
	delete(d.VMs, key)
	delete(d.Entities, entity)
	delete(d.Nodes, entity)
	delete(d.VMRefs, entity)
}

// yield leaves their objects to VMs that nothing shows at present and whose objects are kept.
func (d *Desired) yield(v View) {
	for key, held := range v.VMs {
		vm := d.VMs[key]
		if vm == nil || held.Status.CloudId == "" || held.Status.CloudId == vm.Status.CloudId || !v.Keep(held.Status.Region, key.Namespace) {
			continue
		}
		d.drop(key)
		d.lose(key, held.Status.CloudId, vm.Status.CloudId)
	}
}
