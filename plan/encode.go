package plan

import (
	"bytes"
	"encoding/json"

	"github.com/eksnode/packer-plugin-eksnode/internal/show"
)

// EncodeJSON encodes a value as indented JSON that is safe to print.
func EncodeJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return show.JSON(b.Bytes()), nil
}
