package inventory

import (
	"maps"
	"strings"

	"github.com/nephele-io/nephele/api/cloud/v1alpha1"
)

// ours reports whether only this package sets a label.
func ours(key string) bool {
	return strings.HasPrefix(key, v1alpha1.LabelPrefix) || strings.HasPrefix(key, v1alpha1.LabelUserTagPrefix)
}

// mergeLabels returns have with all labels of ours replaced by want, and whether that differs from
// have, which is returned itself if not.
func mergeLabels(have, want map[string]string) (map[string]string, bool) {
	if carries(have, want) {
		return have, false
	}
	merged := maps.Clone(want)
	if merged == nil {
		merged = map[string]string{}
	}
	for k, v := range have {
		if !ours(k) {
			merged[k] = v
		}
	}
	return merged, true
}

// carries reports whether have has the labels of want, and besides no label of ours.
func carries(have, want map[string]string) bool {
	for k, v := range want {
		if is, there := have[k]; !there || is != v && ours(k) {
			return false
		}
	}
	for k := range have {
		if _, wanted := want[k]; !wanted && ours(k) {
			return false
		}
	}
	return true
}
