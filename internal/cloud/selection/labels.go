package selection

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

// tagLabels turns tags into labels and reports the tags that cannot be labels, sorted by key. The
// user's tags get labels of their own, or if merge is set take the places of the cloud's.
func tagLabels(fromCloud, fromUser map[string]string, merge bool) (map[string]string, []v1alpha1.UnimportedTag) {
	labels := make(map[string]string, len(fromCloud)+len(fromUser))
	var left []v1alpha1.UnimportedTag
	add := func(tags map[string]string, prefix, remark string) {
		for key, value := range tags {
			if reason := whyNoLabel(prefix, key, value); reason != "" {
				left = append(left, v1alpha1.UnimportedTag{Key: key, Value: value, Reason: remark + reason})
				continue
			}
			labels[prefix+key] = value
		}
	}
	if merge {
		tags := maps.Clone(fromCloud)
		if tags == nil {
			tags = map[string]string{}
		}
		maps.Copy(tags, fromUser)
		add(tags, v1alpha1.LabelTagPrefix, "")
	} else {
		add(fromCloud, v1alpha1.LabelTagPrefix, "")
		add(fromUser, v1alpha1.LabelUserTagPrefix, "spec.tags: ")
	}
	slices.SortFunc(left, func(a, b v1alpha1.UnimportedTag) int {
		return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Reason, b.Reason))
	})
	return labels, left
}

// whyNoLabel says why a tag cannot be a label with this prefix; "" if it can. The part of a label's
// key after the slash has at most 63 characters.
func whyNoLabel(prefix, key, value string) string {
	_, fixed, _ := strings.Cut(prefix, "/")
	longest := 63 - len(fixed)
	switch {
	case key == "":
		return "the key is empty"
	case len(key) > longest:
		return fmt.Sprintf("the key has %d characters; a label takes %d", len(key), longest)
	case strings.Contains(key, "/"), len(validation.IsQualifiedName(prefix+key)) > 0:
		return "the key is not made of letters, digits, '-', '_' and '.' with a letter or digit at the end"
	case len(value) > validation.LabelValueMaxLength:
		return fmt.Sprintf("the value has %d characters; a label takes %d", len(value), validation.LabelValueMaxLength)
	case len(validation.IsValidLabelValue(value)) > 0:
		return "the value is not made of letters, digits, '-', '_' and '.' with a letter or digit at both ends"
	}
	return ""
}
