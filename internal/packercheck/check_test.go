package packercheck

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestMistakesOfTemplates(t *testing.T) {
	templates, err := txtar.ParseFile("testdata/mistakes.txtar")
	require.NoError(t, err)
	for _, f := range templates.Files {
		t.Run(f.Name, func(t *testing.T) {
			var want, found []string
			for i, line := range strings.Split(string(f.Data), "\n") {
				if _, rule, marked := strings.Cut(line, " # "); marked {
					want = append(want, fmt.Sprintf("%d: %s", i+1, rule))
				}
			}
			list, err := Check([]File{{"node.pkr.hcl", f.Data}})
			require.NoError(t, err)
			for _, f := range list {
				assert.Equal(t, "node.pkr.hcl", f.File)
				assert.NotEmpty(t, f.Text)
				assert.NotEmpty(t, f.Remedy)
				found = append(found, fmt.Sprintf("%d: %s", f.Line, f.Rule))
			}
			assert.Equal(t, want, found)
		})
	}
}

// A source may be in another file than the build, and a template may be JSON.
func TestFilesOfATemplateAreOne(t *testing.T) {
	list, err := Check([]File{
		{"build.pkr.json", []byte(`{"build": {"sources": ["null.x"], "provisioner": [{"eksnode-scrub": {}}, {"shell": {}}]}}`)},
		{"source.pkr.hcl", []byte("source \"null\" \"x\" {\ncommunicator = \"none\"\n}\n")},
	})
	require.NoError(t, err)
	require.Len(t, list, 2)
	assert.Equal(t, "after-scrub", list[0].Rule)
	assert.Equal(t, "build.pkr.json", list[0].File)
	assert.Equal(t, Finding{Rule: "no-communicator", File: "source.pkr.hcl", Line: 2,
		Text: `with communicator = "none" no command runs, and Packer reports success`, Remedy: "set another communicator, such as ssh"}, list[1])
}

func TestWhatCannotBeCheckedIsAnError(t *testing.T) {
	for text, want := range map[string]string{
		"":                                  "no build has a component of eksnode",
		"build {\nsources = []\n}":          "no build has a component of eksnode",
		"build {\n":                         "node.pkr.hcl:1: Unclosed configuration block",
		"build {\nprovisioner {}\n}":        "node.pkr.hcl:2: Missing type for provisioner",
		"source \"null\" {}\n":              "node.pkr.hcl:1: Missing name for source",
		strings.Repeat("#\n", 200<<10):      "node.pkr.hcl is larger than 256 KiB",
		"x = " + strings.Repeat("[", 1<<16): "node.pkr.hcl has 65536 brackets and operators",
	} {
		_, err := Check([]File{{"node.pkr.hcl", []byte(text)}})
		assert.ErrorContains(t, err, want, "%.40s", text)
	}
}

// Nesting as deep as the limit allows ends in an error or in no findings, not in a
// crash.
func FuzzCheck(f *testing.F) {
	f.Add([]byte("x = " + strings.Repeat("[", 9_999)))
	f.Add([]byte("x = " + strings.Repeat("!", 1<<17)))
	f.Add([]byte("build {\n" + strings.Repeat("post-processors {\n", 1<<10)))
	f.Add([]byte("build {\ndynamic \"source\" {\nlabels = [null]\ncontent {}\n}\nprovisioner \"eksnode\" {\nreport = null\nonly = [1]\n}\n}"))
	f.Fuzz(func(t *testing.T, text []byte) {
		list, err := Check([]File{{"x.pkr.hcl", text}})
		for _, found := range list {
			assert.Positive(t, found.Line)
		}
		if err != nil {
			assert.Empty(t, list)
		}
	})
}
