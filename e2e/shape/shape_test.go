package shape

import "testing"

func TestTry(t *testing.T) {
	root, repo, err := Arch().Prepare(t.Context(), t.Output())
	t.Log(root, repo, err)
	if err != nil {
		t.Fatal(err)
	}
}
