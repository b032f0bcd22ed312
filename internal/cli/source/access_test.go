package source

import (
	"testing"

	"github.com/spf13/pflag"

	"github.com/nephele-io/nephele/internal/cloud/aws"
)

// TestAccessDefaults: what the flags say when nothing is said, and when nothing is allowed.
func TestAccessDefaults(t *testing.T) {
	for _, c := range []struct {
		defaults, args []string
		want           string
	}{
		{nil, nil, "none"},
		{[]string{"loopback"}, nil, "loopback"},
		{[]string{"loopback"}, []string{"--allowed-endpoints="}, "none"},
		{[]string{"loopback"}, []string{"--allowed-endpoints=10.0.0.0/8,ec2.example:8443", "--allowed-endpoints=loopback"}, "10.0.0.0/8,ec2.example:8443,loopback"},
	} {
		var f AccessFlags
		set := pflag.NewFlagSet("", pflag.ContinueOnError)
		f.Register(set, c.defaults...)
		if err := set.Parse(c.args); err != nil {
			t.Fatal(err)
		}
		a, err := f.Access()
		if err != nil || a.Endpoints.String() != c.want || len(a.AmbientNamespaces) > 0 || a.Bounds != aws.DefaultBounds() {
			t.Errorf("%q: %v, %s, %+v", c.args, err, a.Endpoints, a)
		}
	}
}
