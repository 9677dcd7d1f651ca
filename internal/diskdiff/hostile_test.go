//go:build linux

package diskdiff_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// Names of 255 bytes, with newlines, escape sequences and bytes that are not UTF-8 stay
// apart in JSON. Paths may be longer than the kernel accepts.
func TestHostileNames(t *testing.T) {
	long := strings.Repeat("n", 255)
	before := image(t, "ext4", tree(t, map[string]string{"a\nb": "1", "a": "1", "b/c": "1", "b.c": "1", "b\x01": "1"}))
	after := changed(t, before, `
printf 2 >"$(printf 'a\nb')"; printf 2 >a; printf 2 >b.c; printf 2 >b/c; touch b/d; printf 2 >"$(printf 'b\001')"
touch "$(printf '\377bad')" "$(printf '\033[2Jclear')" "`+long+`" '"\xffbad"' "$(printf '\342\200\256txt')"
ln -s "$(printf '\377\nx')" link
python3 - <<'END'
import os
for n in range(40):
    os.mkdir('d' * 200); os.chdir('d' * 200)
open('deep', 'w').close()
END`)
	r := compared(t, before, after)
	list := told(r)
	require.Equal(t, []string{
		"+ /\x1b[2Jclear", "+ /\"\\xffbad\"", "~ /a: content", "~ /a\nb: content", "~ /b/c: content", "+ /b/d", "~ /b\x01: content", "~ /b.c: content",
	}, list[:8])
	require.Equal(t, []string{"+ /link", "+ /" + long, "+ /\u202etxt", `+ "/\xffbad"`}, list[len(list)-4:])
	require.Len(t, list, 8+41+4)
	require.Greater(t, len(list[48]), 8000)
	text, err := json.Marshal(r)
	require.NoError(t, err)
	require.True(t, utf8.Valid(text))
	require.NotContains(t, string(text), "\ufffd")
	for _, f := range r.Files {
		if f.Name == "/link" {
			require.Equal(t, `"\xff\nx"`, f.After.Target)
		}
	}
}
