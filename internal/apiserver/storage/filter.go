package storage

import (
	"fmt"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/nephele-io/nephele/internal/apiserver/groups"
)

// Filter is what of a kind a client asks for.
type Filter struct {
	// Key is the enforcer's; empty means everything.
	Key string
	// Name is that of the one object asked for; empty means all.
	Name string
	// nothing says that the label selector matches no object: they have no labels.
	nothing bool
}

// NewFilter reads the selectors of a request. The fields have been checked already.
func NewFilter(o *internalversion.ListOptions) (Filter, error) {
	var f Filter
	if o == nil {
		return f, nil
	}
	f.nothing = o.LabelSelector != nil && !o.LabelSelector.Matches(labels.Set(nil))
	if o.FieldSelector == nil {
		return f, nil
	}
	for _, r := range o.FieldSelector.Requirements() {
		target := &f.Key
		if r.Field == groups.FieldName {
			target = &f.Name
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

// Wants reports whether an object of that name is asked for.
func (f Filter) Wants(name string) bool {
	return !f.nothing && (f.Name == "" || f.Name == name)
}

// ResumeAt returns the position that a watch is to go on from, or "" if it is to begin with
// everything.
func ResumeAt(o *internalversion.ListOptions) (string, error) {
	if o == nil || o.ResourceVersion == "" || o.ResourceVersion == "0" || (o.SendInitialEvents != nil && *o.SendInitialEvents) {
		return "", nil
	}
	if _, err := strconv.ParseUint(o.ResourceVersion, 10, 64); err != nil {
		return "", apierrors.NewBadRequest(fmt.Sprintf("resourceVersion %q is not a number", o.ResourceVersion))
	}
	return o.ResourceVersion, nil
}

// MarksInitialEvents reports whether the client asks which bookmark ends the objects that there
// were.
func MarksInitialEvents(o *internalversion.ListOptions) bool {
	return o != nil && o.AllowWatchBookmarks && o.SendInitialEvents != nil && *o.SendInitialEvents
}

// CheckList refuses lists that cannot be served: pages, which are never handed out, and positions
// other than the present.
func CheckList(o *internalversion.ListOptions, position string) error {
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
