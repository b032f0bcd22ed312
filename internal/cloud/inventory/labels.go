package inventory

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/nephele-io/nephele/api/cloud/v1alpha1"
)

// AnnotationAccount marks the objects of an account: "namespace/name" of its CloudProviderAccount.
const AnnotationAccount = "nephele.io/account"

// setIfLegal sets a label if the value can be one. An empty value says nothing and is left out too.
func setIfLegal(labels map[string]string, key, value string) {
	if value != "" && len(validation.IsValidLabelValue(value)) == 0 {
		labels[key] = value
	}
}

// tagLabels turns tags into labels, the user's over the cloud's, and reports the tags that cannot be labels, sorted by key.
func tagLabels(fromCloud, fromUser map[string]string) (map[string]string, []v1alpha1.UnimportedTag) {
	tags := maps.Clone(fromCloud)
	if tags == nil {
		tags = map[string]string{}
	}
	maps.Copy(tags, fromUser)
	labels := make(map[string]string, len(tags))
	var left []v1alpha1.UnimportedTag
	for key, value := range tags {
		if reason := whyNoLabel(key, value); reason != "" {
			left = append(left, v1alpha1.UnimportedTag{Key: key, Value: value, Reason: reason})
			continue
		}
		labels[v1alpha1.LabelTagPrefix+key] = value
	}
	slices.SortFunc(left, func(a, b v1alpha1.UnimportedTag) int { return cmp.Compare(a.Key, b.Key) })
	return labels, left
}

// maxTagKey is the longest key of a tag that fits into the name of a label, after "tag-".
const maxTagKey = 59

func whyNoLabel(key, value string) string {
	switch {
	case key == "":
		return "the key is empty"
	case len(key) > maxTagKey:
		return fmt.Sprintf("the key has %d characters; a label takes %d", len(key), maxTagKey)
	case strings.Contains(key, "/"), len(validation.IsQualifiedName(v1alpha1.LabelTagPrefix+key)) > 0:
		return "the key is not made of letters, digits, '-', '_' and '.' with a letter or digit at the end"
	case len(value) > validation.LabelValueMaxLength:
		return fmt.Sprintf("the value has %d characters; a label takes %d", len(value), validation.LabelValueMaxLength)
	case len(validation.IsValidLabelValue(value)) > 0:
		return "the value is not made of letters, digits, '-', '_' and '.' with a letter or digit at both ends"
	}
	return ""
}

// ours reports whether a label is set by this package and by nobody else.
func ours(key string) bool { return strings.HasPrefix(key, v1alpha1.LabelPrefix) }

// mergeLabels returns have with all labels of ours replaced by want, and whether that differs from have.
func mergeLabels(have, want map[string]string) (map[string]string, bool) {
	merged := maps.Clone(want)
	if merged == nil {
		merged = map[string]string{}
	}
	for k, v := range have {
		if !ours(k) {
			merged[k] = v
		}
	}
	return merged, !maps.Equal(merged, have)
}
