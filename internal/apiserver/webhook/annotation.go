package webhook

import "fmt"

// formerOnRefusal is an annotation of policies by which former releases enforced a
// part of what does not fit. "keep" was the default, and is what happens to all policies now.
const formerOnRefusal = "nephele.io/on-refusal"

// AnnotationWarnings says which annotations of an Antrea policy do not do what one may expect. They
// are no reason to refuse the policy: what it says is in its specification.
func AnnotationWarnings(annotations map[string]string) []string {
	value, ok := annotations[formerOnRefusal]
	if !ok || value == "keep" {
		return nil
	}
	return []string{fmt.Sprintf("metadata.annotations[%s]: %q has no effect any more: where not all of the policy fits, "+
		"nothing new of it is enforced, and what is in force stays; remove the annotation", formerOnRefusal, value)}
}
