package diagnose

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// A mistake in the table is an error with its line.
func TestATableWithMistakes(t *testing.T) {
	for text, want := range map[string]string{
		"causes:\n- id: a\n  line: [b]": `t:3: causes[0].line: unknown field; did you mean lines?`,
		"causes:\n- id: a\n  lines: b":  `t:3: causes[0].lines: must be a list, not text`,
		"causes:\n- id: a\n  remedy:":   `t:3: causes[0].remedy: there is no value`,
		"causes:\n- id: a\n  id: b":     `t:3: causes[0].id: the field is set twice; first in line 2`,
		"causes:\n- commands: [*a]":     `t: unknown anchor 'a' referenced`,
		"moments:\n  joined:\n  - a(":   "t:3: moments.joined[0]: error parsing regexp: missing closing ): `a(`",
		"causes:\n- lines:\n  - a\n  - b)\n  not:\n  - c)": "t:4: causes[0].lines[1]: error parsing regexp: " +
			"unexpected ): `b)`\nt:6: causes[0].not[0]: error parsing regexp: unexpected ): `c)`",
		"causes:\n- owners:\n  - line: a)": "t:3: causes[0].owners[0].line: error parsing regexp: unexpected ): `a)`",
		"causes:\n- files:\n  - has: a)":   "t:3: causes[0].files[0]: error parsing regexp: unexpected ): `a)`",
		"moments: {joined: [a]}\ncauses:\n- id: a\n  until: joint": `t:4: causes[0].until: unknown moment "joint"; ` +
			`did you mean joined?`,
	} {
		_, err := readTable("t", []byte(text))
		assert.EqualError(t, err, want, text)
	}
}
