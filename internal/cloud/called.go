package cloud

import "strings"

// Called is what people call an interface or VM: the name of the VM, with the id of the interface
// where it has several. Of a region that was not seen, or a VM without a name, it is the id.
func (s *Snapshot) Called(id string) string {
	if s == nil {
		return ShortIDs(id)
	}
	vm := id
	n := s.Interface(id)
	if n != nil && n.VMID != "" {
		vm = n.VMID
	}
	for i := range s.VMs {
		v := &s.VMs[i]
		switch {
		case v.ID != vm || v.Name == "":
		case n != nil && len(v.Interfaces) > 1:
			return Words(v.Name) + " (" + ShortIDs(id) + ")"
		default:
			return Words(v.Name)
		}
	}
	return ShortIDs(id)
}

// FullName is an interface by its id, and the VM that it is of.
func (s *Snapshot) FullName(id string) string {
	short, name := ShortIDs(id), s.Called(id)
	if strings.Contains(name, short) {
		return name
	}
	return short + " of " + name
}
