package ec2

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestTags(t *testing.T) {
	b := newBench(t)
	defer b.close()
	id := b.run(nil)
	volume := b.instance(id).Devices[0].Volume
	tag := func(key, value string, resources ...string) map[string]string {
		parameters := map[string]string{"Tag.1.Key": key, "Tag.1.Value": value}
		for i, resource := range resources {
			parameters[[]string{"ResourceId.1", "ResourceId.2"}[i]] = resource
		}
		return parameters
	}
	b.call("CreateTags", tag("a", "1", id, volume), nil)
	b.call("CreateTags", tag("b", "2", id), nil)
	b.call("CreateTags", tag("a", "3", id), nil)
	b.refused("InvalidID", "CreateTags", tag("c", "4", id, "vol-0"))
	assert.Equal(t, []Tag{{"b", "2"}, {"a", "3"}}, b.instance(id).Tags, "the newer value of a key wins; half a call does nothing")
	assert.Equal(t, []Tag{{"a", "1"}}, b.volume(volume).Tags)
	b.in(abroad).refused("InvalidID", "CreateTags", tag("a", "1", id))
}
