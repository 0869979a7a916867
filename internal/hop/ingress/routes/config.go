package routes

import (
	"github.com/podway/podway/internal/model"
)

// Config is what the routes depend on beyond the cluster's objects.
type Config struct {
	Controller     string     // spec.controller of the IngressClasses served; "" = podway.io/ingress
	Class          string     // legacy annotation served without an IngressClass of that name; "" = podway
	DefaultBackend ServiceRef // answers what no Ingress does; zero = 404
	DefaultSecret  model.Name // certificate for hosts without one; zero = self-signed
}

// ServiceRef is a port of a Service.
type ServiceRef struct {
	Service model.Name
	Port    model.PortRef
}

// The names that this controller answers to unless told otherwise.
const (
	DefaultController = "podway.io/ingress"
	DefaultClass      = "podway"
)

// legacyClass is the annotation of before spec.ingressClassName; it needs no IngressClass object.
const legacyClass = "kubernetes.io/ingress.class"

func (c Config) withDefaults() Config {
	if c.Controller == "" {
		c.Controller = DefaultController
	}
	if c.Class == "" {
		c.Class = DefaultClass
	}
	return c
}

// Standing is how an Ingress stands to this controller.
type Standing int

// The standings.
const (
	Served      Standing = iota
	Foreign              // the class is another controller's
	NoSuchClass          // it names a class that does not exist
	NoClass              // it names none, and no class is the default
)

// Standing says whether the Ingress is this controller's, and why not. One without class belongs to a default class.
func (c Config) Standing(s *model.Snapshot, ing *model.Ingress) Standing {
	c = c.withDefaults()
	if ing.Class == "" {
		return c.defaultStanding(s)
	}
	if class, ok := s.Classes.Get(ing.Class); ok {
		if class.Controller == c.Controller {
			return Served
		}
		return Foreign
	}
	if ing.Annotations[legacyClass] != ing.Class {
		return NoSuchClass
	}
	if ing.Class == c.Class {
		return Served
	}
	return Foreign // the annotation's value is a word between the user and some other controller
}

func (c Config) defaultStanding(s *model.Snapshot) Standing {
	out := NoClass
	for class := range s.Classes.Values() {
		switch {
		case !class.Default:
		case class.Controller == c.Controller:
			return Served
		default:
			out = Foreign
		}
	}
	return out
}
