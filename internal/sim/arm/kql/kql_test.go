package kql

import (
	"fmt"
	"testing"
)

func row(name, kind string, n float64) map[string]any {
	return map[string]any{"name": name, "type": kind, "properties": map[string]any{"n": n, "deep": map[string]any{"x": name + "!"}}}
}

// TestRun runs queries over three rows.
func TestRun(t *testing.T) {
	rows := []map[string]any{row("b", "T/Two", 2), row("a", "t/one", 1), row("c", "t/three", 3)}
	for query, want := range map[string]string{
		"Resources | project name":                                                                                       "[map[name:b] map[name:a] map[name:c]]",
		"Resources | order by name asc | project name":                                                                   "[map[name:a] map[name:b] map[name:c]]",
		"Resources | order by name | limit 1 | project name":                                                             "[map[name:c]]",
		"Resources | where type =~ 't/TWO' | project name":                                                               "[map[name:b]]",
		"Resources | where type == 't/TWO' | project name":                                                               "[]",
		"Resources | where type in~ ('T/ONE', \"t/two\") and name != 'a' | project name":                                 "[map[name:b]]",
		"Resources | where type !in ('t/one') | where name == 'a' or name == 'c' | project name":                         "[map[name:c]]",
		"Resources | where not(name contains 'B') | project name":                                                        "[map[name:a] map[name:c]]",
		"Resources | where isnotempty(properties.deep['x']) and properties.n == 3 | project name, x = properties.deep.x": "[map[name:c x:c!]]",
		"Resources // all of them\n| extend big = tolower(type) | where big startswith 'T/T' | project big":              "[map[big:t/two] map[big:t/three]]",
		"Resources | count": "[map[Count:3]]",
		"Resources | where isempty(nothing.at.all) | project n = tostring(properties.n)": "[map[n:2] map[n:1] map[n:3]]",
	} {
		q, err := Parse(query)
		if err != nil {
			t.Errorf("%s: %v", query, err)
			continue
		}
		if got, _ := q.Run(rows); fmt.Sprint(got) != want {
			t.Errorf("%s: got %v, want %s", query, got, want)
		}
	}
}

// TestParseErrors: what is not understood is an error, and no empty answer.
func TestParseErrors(t *testing.T) {
	for _, query := range []string{
		"", "|", "Resources where x", "Resources | join x", "Resources | where", "Resources | where x", "Resources | where x has 'y'", "Resources | where x == 'y",
		"Resources | where x in ('a'", "Resources | project", "Resources | project 1 +", "Resources | limit many", "Resources | order name", "Resources | where (x == 'y'",
	} {
		if _, err := Parse(query); err == nil {
			t.Errorf("%q was understood", query)
		}
	}
}
