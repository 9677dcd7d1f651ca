package base

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestCacheKeyCoversWholeRecipe(t *testing.T) {
	key := func(change func(*recipe)) string {
		recipe := newRecipe("trixie")
		change(&recipe)
		key, err := recipe.key()
		require.NoError(t, err)
		return key
	}
	same := key(func(*recipe) {})
	assert.Regexp(t, `^trixie-[0-9a-f]{16}$`, same)
	assert.Equal(t, same, key(func(*recipe) {}))
	for name, change := range map[string]func(*recipe){
		"suite":    func(r *recipe) { *r = newRecipe("bookworm") },
		"variant":  func(r *recipe) { r.Variant = "apt" },
		"packages": func(r *recipe) { r.Packages = append(r.Packages, "vim") },
		"excluded": func(r *recipe) { r.Excluded = nil },
		"purged":   func(r *recipe) { r.Purged = nil },
		"removed":  func(r *recipe) { r.Removed = r.Removed[1:] },
		"content":  func(r *recipe) { r.Files[len(r.Files)-1].Content += "\n" },
		"mode":     func(r *recipe) { r.Files[0].Mode = 0o600 },
		"links":    func(r *recipe) { r.Links["/x"] = "y" },
		"loader":   func(r *recipe) { r.Loader = append(r.Loader, "xfs") },
		"revision": func(r *recipe) { r.Revision++ },
	} {
		t.Run(name, func(t *testing.T) { assert.NotEqual(t, same, key(change)) })
	}
}
