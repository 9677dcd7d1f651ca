package strictjson

import (
	"bytes"
	"fmt"

	"go.yaml.in/yaml/v3"
)

// Ours reads a table of this program. The fields have their names in YAML, which without a
// tag are those of Go in lower case. Other fields are a mistake of this program.
func Ours(file string, text []byte, to any) {
	known := yaml.NewDecoder(bytes.NewReader(text))
	known.KnownFields(true)
	if err := known.Decode(to); err != nil {
		panic(fmt.Errorf("reading %s: %w", file, err))
	}
}
