package nativeapi_test

import (
	"net/http"
	"net/url"
	"testing"

	"github.com/nephele-io/nephele/internal/sim/ec2/nativeapi"
)

// TestRoute: paths that no service has find no action, whatever they look like.
func TestRoute(t *testing.T) {
	for _, c := range []struct{ method, path, service, action, key, value string }{
		{http.MethodGet, "/2015-02-01/file-systems?MaxItems=5", "elasticfilesystem", "DescribeFileSystems", "MaxItems", "5"},
		{http.MethodGet, "/2015-02-01/mount-targets/fsmt-1/security-groups", "elasticfilesystem", "DescribeMountTargetSecurityGroups", "MountTargetId", "fsmt-1"},
		{http.MethodPut, "/2015-02-01/mount-targets/fsmt-1/security-groups", "elasticfilesystem", "ModifyMountTargetSecurityGroups", "MountTargetId", "fsmt-1"},
		{http.MethodGet, "/2015-03-31/functions/", "lambda", "ListFunctions", "", ""},
		{http.MethodGet, "/2017-03-31/tags/arn%3Aaws%3Alambda%3Ax%2Fy", "lambda", "ListTags", "Resource", "arn:aws:lambda:x/y"},
		{http.MethodDelete, "/2017-03-31/tags/arn:aws:lambda?tagKeys=a&tagKeys=b", "lambda", "UntagResource", "tagKeys", "a"},
		{http.MethodPost, "/2015-02-01/file-systems", "elasticfilesystem", "", "", ""},
		{http.MethodGet, "/2015-02-01/mount-targets//security-groups", "elasticfilesystem", "", "", ""},
		{http.MethodGet, "/2015-03-31/functions/x/configuration/y", "lambda", "", "", ""},
		{http.MethodGet, "/2099-01-01/anything", "", "", "", ""},
	} {
		u, err := url.Parse(c.path)
		if err != nil {
			t.Fatal(err)
		}
		service, action, params := nativeapi.Route(c.method, u)
		if service != c.service || action != c.action || params.Get(c.key) != c.value {
			t.Errorf("%s %s is %s %s with %v", c.method, c.path, service, action, params)
		}
	}
}

// TestActionsOfServices: every service has actions, and no other has any.
func TestActionsOfServices(t *testing.T) {
	for _, service := range nativeapi.Services() {
		if len(nativeapi.Actions(service)) == 0 {
			t.Errorf("%s has no actions", service)
		}
		if !nativeapi.IsREST(service) && nativeapi.Namespace(service) == "" {
			t.Errorf("%s has no namespace", service)
		}
	}
	if nativeapi.Actions("s3") != nil {
		t.Error("a service that is not there has actions")
	}
}
