//go:build linux

package aws

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws/endpoint"
)

// createTemplate keeps the data of a launch template for its instances: moto would
// ignore most of it.
func (w *World) createTemplate(ctx context.Context, protocol endpoint.Protocol, call endpoint.Call) (any, error) {
	answer, err := w.forwarded([]string{"LaunchTemplateName", "LaunchTemplateData", "ClientToken", "TagSpecification"})(ctx, protocol, call)
	raw, written := answer.(*endpoint.Raw)
	if err != nil || !written || raw.Status != http.StatusOK {
		return answer, err
	}
	form, err := url.ParseQuery(call.Body)
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.templates[string(templateID.FindSubmatch(raw.Body)[1])] = form
	return raw, err
}

var templateID = regexp.MustCompile(`<launchTemplateId>(.*?)<`)

// runTemplate adds a launch template's first version to the parameters of RunInstances.
func (w *World) runTemplate(ctx context.Context, protocol endpoint.Protocol, call endpoint.Call) (any, error) {
	form, err := url.ParseQuery(call.Body)
	if err != nil {
		return nil, err
	}
	if id := form.Get("LaunchTemplate.LaunchTemplateId"); id != "" {
		form.Del("LaunchTemplate.LaunchTemplateId")
		own := 0
		for form.Has(fmt.Sprintf("TagSpecification.%d.ResourceType", own+1)) {
			own++
		}
		w.mutex.Lock()
		for name, values := range w.templates[id] {
			name, data := strings.CutPrefix(name, "LaunchTemplateData.")
			if parts := strings.SplitN(name, ".", 3); parts[0] == "TagSpecification" { // the tags of both count
				n, _ := strconv.Atoi(parts[1])
				name = fmt.Sprintf("%s.%d.%s", parts[0], own+n, parts[2])
			}
			if data && !form.Has(name) {
				form[name] = values
			}
		}
		w.mutex.Unlock()
		call.Body = form.Encode()
	}
	return endpoint.Handle(w.runInstances)(ctx, protocol, call)
}
