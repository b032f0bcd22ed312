package cli

import (
	"strings"
	"testing"
)

func TestBadServingFlags(t *testing.T) {
	kubeconfig := file(t, "kubeconfig", `{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: u}}],
		clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}], users: [{name: u, user: {}}]}`)
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--webhook-client-names=kube-apiserver"}, "--webhook-client-names needs --webhook-client-ca"},
		{[]string{"--secret-namespaces=a,,b"}, `--secret-namespaces: "" is not the name of a namespace`},
		{[]string{"--secret-namespaces=*"}, `--secret-namespaces: "*" is not the name of a namespace`},
		{[]string{"--api-watches-per-key=0"}, "want at least 1"},
		{[]string{"--api-connections=-1"}, "want at least 1"},
	} {
		r := nephele(t, "", append([]string{"controller", "--kubeconfig", kubeconfig}, c.args...)...)
		if r.code != ExitBadInput || !strings.Contains(r.err, c.want) {
			t.Errorf("%v: exit %d, %s", c.args, r.code, r.err)
		}
	}
}
