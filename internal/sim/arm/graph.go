package arm

import (
	"encoding/base64"
	"net/http"
	"slices"
	"strconv"

	"github.com/nephele-io/nephele/internal/sim/arm/kql"
	"github.com/nephele-io/nephele/internal/sim/azure"
	"github.com/nephele-io/nephele/internal/sim/azure/document"
)

const maxGraphRows = 1000

// graph answers a query of Resource Graph.
func (h *Handler) graph(req *request) (answer, error) {
	var body struct {
		Query         string   `json:"query"`
		Subscriptions []string `json:"subscriptions"`
		Options       struct {
			Top          *int   `json:"$top"`
			Skip         int    `json:"$skip"`
			SkipToken    string `json:"$skipToken"`
			ResultFormat string `json:"resultFormat"`
		} `json:"options"`
	}
	if err := req.decode(&body); err != nil {
		return answer{}, err
	}
	q, err := kql.Parse(body.Query)
	if err != nil {
		e := document.Refuse(http.StatusBadRequest, "BadRequest", "Please provide below info when asking for support: correlationId = %s.", req.call.RequestID())
		e.Details = []document.Detail{{Code: "InvalidQuery", Message: "Query is invalid. Please refer to the documentation for the Azure Resource Graph service and fix " +
			"the error before retrying."}, {Code: "ParserFailure", Message: err.Error()}}
		return answer{}, e
	}
	top := min(maxGraphRows, h.cfg.PageSize)
	if n := body.Options.Top; n != nil {
		if *n < 1 || *n > maxGraphRows {
			return answer{}, document.Refuse(http.StatusBadRequest, "InvalidTopQueryOption", "The value of $top is %d, expected 1 to %d.", *n, maxGraphRows)
		}
		top = min(*n, top)
	}
	from := body.Options.Skip
	if body.Options.SkipToken != "" {
		raw, err := base64.StdEncoding.DecodeString(body.Options.SkipToken)
		n, err2 := strconv.Atoi(string(raw))
		if err != nil || err2 != nil {
			return answer{}, document.Refuse(http.StatusBadRequest, "InvalidSkipToken", "The skip token is invalid.")
		}
		from = n
	}
	var rows []map[string]any
	known, none := true, false
	h.read(func(c *azure.Cloud) {
		visible := c.Subscriptions(&req.by)
		wanted := body.Subscriptions
		for _, s := range visible {
			none = none || len(wanted) == 0 || slices.Contains(wanted, s.ID)
		}
		none = !none
		rows, known = c.GraphRows(&req.by, q.Table, wanted)
	})
	switch {
	case none:
		return answer{}, document.Refuse(http.StatusForbidden, "AccessDenied", "Please provide below info when asking for support: correlationId = %s. "+
			"Access is denied to the requested subscriptions.", req.call.RequestID())
	case !known:
		return answer{}, document.Refuse(http.StatusBadRequest, "InvalidQuery", "Table %s is invalid, or not simulated.", q.Table)
	}
	rows, columns := q.Run(rows)
	total := len(rows)
	from = min(from, total)
	end := min(total, from+top)
	out := map[string]any{
		"totalRecords": total, "count": end - from, "facets": []any{}, "resultTruncated": "false", "data": graphData(rows[from:end], columns, body.Options.ResultFormat),
	}
	if end < total {
		out["$skipToken"] = base64.StdEncoding.EncodeToString([]byte(strconv.Itoa(end)))
	}
	return ok(out), nil
}

func graphData(rows []map[string]any, columns []string, format string) any {
	if format != "table" {
		out := make([]any, len(rows))
		for i := range rows {
			out[i] = rows[i]
		}
		return out
	}
	heads, lines := []any{}, []any{}
	for _, c := range columns {
		kind := "string"
		for _, r := range rows {
			if _, object := r[c].(map[string]any); object {
				kind = "object"
			}
		}
		heads = append(heads, map[string]any{"name": c, "type": kind})
	}
	for _, r := range rows {
		line := []any{}
		for _, c := range columns {
			line = append(line, r[c])
		}
		lines = append(lines, line)
	}
	return map[string]any{"columns": heads, "rows": lines}
}
