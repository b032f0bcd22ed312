package cli

import (
	"strings"
	"testing"
)

// TestAccessFlags: what cannot be is refused with exit code 2 and words that name the flag.
func TestAccessFlags(t *testing.T) {
	for _, c := range []struct{ flag, want string }{
		{"--allowed-endpoints=http://ec2.example", `--allowed-endpoints: "http://ec2.example": want HOST`},
		{"--allowed-endpoints=loopback,10.0.0.1/8", `--allowed-endpoints: "10.0.0.1/8": has bits behind the prefix; want 10.0.0.0/8`},
		{"--allowed-endpoints=*", `--allowed-endpoints: "*": want HOST`},
		{"--allowed-endpoints=ec2.example:0", "not a number from 1 to 65535"},
		{"--ambient-identity-namespaces=Team", `--ambient-identity-namespaces: "Team" is neither the name of a namespace nor '*'`},
		{"--ambient-identity-namespaces=team-*", `"team-*" is neither`},
		{"--max-answer-bytes=0", "--max-answer-bytes 0: want at least 65536"},
		{"--max-answer-bytes=64Mi", "--max-answer-bytes"},
		{"--max-pages=-1", "--max-pages -1: want at least 1"},
		{"--propagation=-1s", "want 0s to 5m0s"},
		{"--propagation=301s", "want 0s to 5m0s"},
		{"--propagation=3", "want 0s to 5m0s, such as 3s"},
		{"--max-objects=0", "--max-objects 0: want at least 1"},
	} {
		commands := []string{"controller", "plan"}
		if strings.HasPrefix(c.flag, "--propagation") {
			commands = commands[:1]
		}
		for _, command := range commands {
			kubeconfig := file(
				t,
				"kubeconfig",
				"apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}]\ncontexts: [{name: c, context: {cluster: c}}]\ncurrent-context: c\n",
			)
			r := nephele(t, "", command, "--kubeconfig", kubeconfig, c.flag)
			if r.code != ExitBadInput || !strings.Contains(r.err, c.want) || r.stdout != "" {
				t.Errorf("%s %s: exit %d, %s%s; want %s", command, c.flag, r.code, r.stdout, r.err, c.want)
			}
		}
	}
}
