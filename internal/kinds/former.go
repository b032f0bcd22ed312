package kinds

import (
	antreav1beta1 "github.com/nephele-io/nephele/api/antrea/v1beta1"
)

// FormerVersions are those in which Antrea served a kind before 1.13, and up to 2.0 besides
// v1beta1. Its form was that of v1beta1 then, but for the one block of a ClusterGroup; see
// ListBlock.
func FormerVersions(group, kind string) []string {
	if group != antreav1beta1.GroupName {
		return nil
	}
	switch kind {
	case "NetworkPolicy", "ClusterNetworkPolicy", "Tier":
		return []string{"v1alpha1"}
	case "Group":
		return []string{"v1alpha3"}
	case "ClusterGroup":
		return []string{"v1alpha3", "v1alpha2"}
	}
	return nil
}

// ListBlock makes the block of addresses that a ClusterGroup of v1alpha2 may have the list that it
// is in all others, and reports whether there was one. A group that has both stays as it is: no one
// says which of them is meant.
func ListBlock(object map[string]any) bool {
	spec, _ := object["spec"].(map[string]any)
	block, is := spec["ipBlock"].(map[string]any)
	if _, both := spec["ipBlocks"]; !is || both {
		return false
	}
	delete(spec, "ipBlock")
	spec["ipBlocks"] = []any{block}
	return true
}
