package apiserver

import (
	"fmt"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// filter is what of a kind a client asks for.
type filter struct {
	// key is the enforcer's; empty means everything.
	key string
	// name is that of the one object asked for; empty means all.
	name string
	// nothing says that the label selector matches no object: they have no labels.
	nothing bool
}

// newFilter reads the selectors of a request. The fields have been checked already.
func newFilter(o *internalversion.ListOptions) (filter, error) {
	var f filter
	if o == nil {
		return f, nil
	}
	f.nothing = o.LabelSelector != nil && !o.LabelSelector.Matches(labels.Set(nil))
	if o.FieldSelector == nil {
		return f, nil
	}
	for _, r := range o.FieldSelector.Requirements() {
		target := &f.key
		if r.Field == fieldName {
			target = &f.name
		}
		switch {
		case r.Operator != selection.Equals && r.Operator != selection.DoubleEquals:
			return f, apierrors.NewBadRequest(fmt.Sprintf("fieldSelector: %s%s%s: only = is allowed", r.Field, r.Operator, r.Value))
		case r.Value == "":
			return f, apierrors.NewBadRequest(fmt.Sprintf("fieldSelector: %s is empty", r.Field))
		case *target != "" && *target != r.Value:
			return f, apierrors.NewBadRequest(fmt.Sprintf("fieldSelector: %s cannot be both %q and %q", r.Field, *target, r.Value))
		}
		*target = r.Value
	}
	return f, nil
}

// wants reports whether an object of that name is asked for.
func (f filter) wants(name string) bool {
	return !f.nothing && (f.name == "" || f.name == name)
}

// resumeAt returns the position that a watch is to go on from, or "" if it is to begin with
// everything.
func resumeAt(o *internalversion.ListOptions) (string, error) {
	if o == nil || o.ResourceVersion == "" || o.ResourceVersion == "0" || (o.SendInitialEvents != nil && *o.SendInitialEvents) {
		return "", nil
	}
	if _, err := strconv.ParseUint(o.ResourceVersion, 10, 64); err != nil {
		return "", apierrors.NewBadRequest(fmt.Sprintf("resourceVersion %q is not a number", o.ResourceVersion))
	}
	return o.ResourceVersion, nil
}

// marksInitialEvents reports whether the client wants to be told which bookmark ends the objects
// that there were.
func marksInitialEvents(o *internalversion.ListOptions) bool {
	return o != nil && o.AllowWatchBookmarks && o.SendInitialEvents != nil && *o.SendInitialEvents
}

// checkList refuses lists that cannot be served: pages, which are never handed out, and positions
// other than the present.
func checkList(o *internalversion.ListOptions, position string) error {
	switch {
	case o == nil:
		return nil
	case o.Continue != "":
		return apierrors.NewBadRequest("continue: lists are returned whole, there is nothing to continue")
	case o.ResourceVersionMatch == metav1.ResourceVersionMatchExact && o.ResourceVersion != position:
		return apierrors.NewResourceExpired(fmt.Sprintf("resourceVersion %s is not kept", o.ResourceVersion))
	}
	return nil
}
