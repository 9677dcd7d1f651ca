package distros

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/host/hosttest"
)

func TestWithNamesEditsOneField(t *testing.T) {
	for name, test := range map[string]struct{ text, want string }{
		"no file":           {"", "[main]\nexclude=a b\n"},
		"no section":        {"[other]\nx=1\n", "[other]\nx=1\n[main]\nexclude=a b\n"},
		"no field":          {"# c\n[main]\nx=1\n", "# c\n[main]\nexclude=a b\nx=1\n"},
		"the field":         {"[main]\nexclude=c\n", "[main]\nexclude=c a b\n"},
		"an empty field":    {"[main]\nexclude =\n", "[main]\nexclude=a b\n"},
		"a similar field":   {"[main]\nexcludepkgs=c\n", "[main]\nexclude=a b\nexcludepkgs=c\n"},
		"another section":   {"[repo]\nexclude=c\n[main]\n", "[repo]\nexclude=c\n[main]\nexclude=a b\n"},
		"commented":         {"[main]\n#exclude=c\n", "[main]\nexclude=a b\n#exclude=c\n"},
		"no end of line":    {"[main]\nx=1", "[main]\nexclude=a b\nx=1\n"},
		"commas and blanks": {"[main]\nexclude=c, d\n", "[main]\nexclude=c, d a b\n"},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, test.want, withNames(test.text, "main", "exclude", "a b")) })
	}
}

func TestHoldAddsEachOnce(t *testing.T) {
	h := hosttest.Root(t, map[string]string{"etc/yum.conf": "[main]\nexclude=a, c\n"})
	conf := holdsInConf{"/etc/yum.conf", "main", "exclude"}
	require.NoError(t, conf.Hold(t.Context(), h, []string{"a", "b"}))
	text, err := h.Content("/etc/yum.conf")
	require.NoError(t, err)
	assert.Equal(t, "[main]\nexclude=a, c b\n", string(text))
	require.NoError(t, conf.Hold(t.Context(), h, []string{"a", "b"}))
	again, err := h.Content("/etc/yum.conf")
	require.NoError(t, err)
	assert.Equal(t, text, again)
	held, err := conf.Held(h, []string{"a", "b", "d"})
	require.NoError(t, err)
	assert.Equal(t, []string{"a", "b"}, held)
}
