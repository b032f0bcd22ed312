package terminal

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// TestLogFormat: in a Pod every line is one JSON object, elsewhere text, unless the flag says else.
func TestLogFormat(t *testing.T) {
	for _, c := range []struct {
		pod, flag string
		json      bool
	}{{"", "", false}, {"10.96.0.1", "", true}, {"10.96.0.1", "text", false}, {"", "json", true}} {
		t.Setenv("KUBERNETES_SERVICE_HOST", c.pod)
		var format LogFormat
		flags := pflag.NewFlagSet("", pflag.ContinueOnError)
		RegisterLogFormat(flags, "log-format", &format)
		var args []string
		if c.flag != "" {
			args = []string{"--log-format", c.flag}
		}
		if err := flags.Parse(args); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		log, level := format.New(&out, false)
		log.V(1).Info("hidden")
		level.SetVerbosity(1)
		log.WithName("audit").V(1).Info("said\nmore", "record", json.RawMessage(`{"n":1}`))
		var said struct {
			Msg    string
			Record struct{ N int }
		}
		err := json.Unmarshal(out.Bytes(), &said)
		if (err == nil) != c.json || strings.Count(out.String(), "\n") != 1 || c.json && (said.Record.N != 1 || said.Msg != "said\nmore") {
			t.Errorf("%+v: %q, %v", c, out.String(), err)
		}
	}
	var format LogFormat
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	RegisterLogFormat(flags, "log-format", &format)
	if err := flags.Parse([]string{"--log-format=xml"}); err == nil || !strings.Contains(err.Error(), "want text or json") {
		t.Error(err)
	}
}
