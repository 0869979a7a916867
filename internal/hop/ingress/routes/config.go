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

// classState is how an Ingress stands to this controller.
type classState int

const (
	served       classState = iota
	foreignClass            // the class is another controller's
	noSuchClass             // it names a class that does not exist
	noClass                 // it names none, and no class is the default
)

// standing says whether the Ingress is ours, and why not. An Ingress without class belongs to a default class.
func (c Config) standing(s *model.Snapshot, ing *model.Ingress) classState {
	if ing.Class == "" {
		return c.defaultStanding(s)
	}
	if class, ok := s.Classes.Get(ing.Class); ok {
		if class.Controller == c.Controller {
			return served
		}
		return foreignClass
	}
	if ing.Annotations[legacyClass] != ing.Class {
		return noSuchClass
	}
	if ing.Class == c.Class {
		return served
	}
	return foreignClass // the annotation's value is a word between the user and some other controller
}

func (c Config) defaultStanding(s *model.Snapshot) classState {
	out := noClass
	for class := range s.Classes.Values() {
		switch {
		case !class.Default:
		case class.Controller == c.Controller:
			return served
		default:
			out = foreignClass
		}
	}
	return out
}
